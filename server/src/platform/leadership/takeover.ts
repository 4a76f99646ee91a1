import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import { onceDatabaseIsBack } from './away.ts'
import { recordEpoch, recordedEpoch } from './epoch.ts'
import { endOlderSessions } from './fenced-database.ts'
import type { LockSession } from './lock-session.ts'
import { aloneError, conflictMs } from './servers.ts'
import { settlePollMs, settleTimeoutMs } from './timing.ts'

/** The server that takes over, and the folder of its epochs. */
export interface Taker {
  readonly server: { readonly id: string; readonly dataDirectory: string }
  readonly epochDirectory: string
}

/** The beginning of an epoch. */
export interface EpochStart {
  readonly epoch: number
  /** How far the database's clock has been set back since the last leader renewed, in milliseconds; 0 if it was not. */
  readonly clockBackMs: number
}

/**
 * Begins the next epoch and returns it. It is higher than that of the database and of the folder, so that a database
 * restored from a backup does not bring an epoch back.
 */
export async function beginEpoch(session: LockSession, { server, epochDirectory }: Taker): Promise<EpochStart> {
  const [last] = await session.query<{ ahead: number }>(
    'select (extract(epoch from renewed_at - clock_timestamp()) * 1000)::float8 as ahead from leadership',
  )
  const [row] = await session.query<{ epoch: string }>(
    `update leadership set epoch = greatest(epoch, $1::bigint) + 1, holder = $2, renewed_at = clock_timestamp(),
       data_directory = $3
     where not exists (select from servers where data_directory <> $3
       and abs(extract(epoch from clock_timestamp() - seen_at)) * 1000 < $4::float8)
     returning epoch`,
    [await recordedEpoch(epochDirectory), server.id, server.dataDirectory, conflictMs],
  )
  if (row === undefined) throw aloneError()
  // From here on the session renews, once a second; no such write needs to wait for the disk.
  await session.query('set synchronous_commit = off')
  return { epoch: Number(row.epoch), clockBackMs: Math.max(0, last?.ahead ?? 0) }
}

/** Makes every older leader harmless: its connections end, and nothing that it began outside the database continues. */
export async function fenceOff(pool: Pool, epoch: number, directory: string, signal: AbortSignal): Promise<void> {
  await recordEpoch(directory, epoch)
  await onceDatabaseIsBack(() => untilOlderSessionsEnd(pool, epoch, signal), signal)
  await onceDatabaseIsBack(() => untilRequestsEnd(pool, signal), signal)
}

async function untilOlderSessionsEnd(pool: Pool, epoch: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const { rowCount } = await pool.query(endOlderSessions, [epoch])
    if (rowCount === 0) return
    await sleep(settlePollMs, undefined, { signal })
  }
}

/**
 * Waits until the transactions of requests that are in progress have ended: PostgreSQL may still be working on the last
 * COMMIT of a killed server. A leader that read the state before that ended would remove resources that the committed
 * rows then refer to. Those that began later are announced to the leader like any other.
 */
async function untilRequestsEnd(pool: Pool, signal: AbortSignal): Promise<void> {
  const since = await pool.query<{ now: string }>('select clock_timestamp()::text as now')
  const until = performance.now() + settleTimeoutMs
  while (performance.now() < until) {
    const { rowCount } = await pool.query(
      `select from pg_stat_activity where application_name = 'fairlead' and datname = current_database()
       and backend_xid is not null and xact_start < $1::timestamptz limit 1`,
      [since.rows[0]?.now],
    )
    if (rowCount === 0) return
    await sleep(settlePollMs, undefined, { signal })
  }
}
