import { setTimeout as sleep } from 'node:timers/promises'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import type { DatabaseRow } from '../tables.ts'

const usageTimeoutMs = 3_000

/**
 * Returns the current size and connections from the engine; `null` when it does not answer or the database is not in
 * use. The first call in a server opens the engine, which the leader has started.
 */
export async function usageOf(
  engine: Pick<Engine, 'name' | 'open'>,
  row: Pick<DatabaseRow, 'role_name' | 'version' | 'port' | 'status' | 'engine'>,
): Promise<{ size_bytes: number | null; connections: number | null }> {
  const unknown = { size_bytes: null, connections: null }
  const { role_name: name, status } = row
  if (status !== 'available') return unknown
  const answered = new AbortController()
  const ask = async () => {
    const { statistics } = await openInstanceOf(engine, row, answered.signal)
    const [sizes, connections] = await Promise.all([statistics.sizes([name]), statistics.connections(name)])
    return { size_bytes: sizes.get(name) ?? null, connections }
  }
  const timeout = sleep(usageTimeoutMs, unknown, { signal: answered.signal }).catch(() => unknown)
  const first = await Promise.race([ask().catch(() => unknown), timeout])
  answered.abort()
  return first
}
