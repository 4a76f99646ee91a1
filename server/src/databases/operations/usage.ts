import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '../engines/engine.ts'
import type { DatabaseRow } from '../tables.ts'

const timeoutMs = 3_000

/** Returns size and connections as the engine reports them now; `null` when it does not answer or the database is not in use. */
export async function usageOf(
  engine: Pick<Engine, 'running'>,
  { id, version, status }: Pick<DatabaseRow, 'id' | 'version' | 'status'>,
): Promise<{ size_bytes: number | null; connections: number | null }> {
  const unknown = { size_bytes: null, connections: null }
  const statistics = engine.running(version)?.statistics
  if (statistics === undefined || status !== 'available') return unknown
  const usage = Promise.all([statistics.sizes([id]), statistics.connections(id)]).then(
    ([sizes, connections]) => ({ size_bytes: sizes.get(id) ?? null, connections }),
    () => unknown,
  )
  const answered = new AbortController()
  const timeout = sleep(timeoutMs, unknown, { signal: answered.signal }).catch(() => unknown)
  const first = await Promise.race([usage, timeout])
  answered.abort()
  return first
}
