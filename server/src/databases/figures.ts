import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from './engine.ts'
import type { DatabaseRow } from './tables.ts'

const timeoutMs = 3_000

/** Size and connections as the engine sees them now; `null` where it cannot be asked, and of what is not in use. */
export async function figuresOf(
  engine: Engine,
  { id, version, status }: Pick<DatabaseRow, 'id' | 'version' | 'status'>,
): Promise<{ size_bytes: number | null; connections: number | null }> {
  const unknown = { size_bytes: null, connections: null }
  const instance = engine.running(version)
  if (instance === null || status !== 'available') return unknown
  const asking = Promise.all([instance.sizes([id]), instance.connections(id)]).then(
    ([sizes, connections]) => ({ size_bytes: sizes.get(id) ?? null, connections }),
    () => unknown,
  )
  const waiting = new AbortController()
  const late = sleep(timeoutMs, unknown, { signal: waiting.signal }).catch(() => unknown)
  const figures = await Promise.race([asking, late])
  waiting.abort()
  return figures
}
