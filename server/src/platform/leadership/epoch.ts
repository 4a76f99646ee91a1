import { readdirSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ClientBase, QueryResult } from 'pg'
import { type DatabaseHandle, openDatabase, type PoolOptions } from '../database.ts'
import type { Logger } from '../logger.ts'

/** Thrown when a server that no longer leads attempts an action of the leader. Callers must not retry it. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading'
  readonly code = 'not_leading'
  readonly epoch: number

  constructor(epoch: number, reason: string) {
    super(`This server led in epoch ${epoch} and no longer leads: ${reason}.`)
    this.epoch = epoch
  }
}

/** Protects effects outside the database from a leader that was paused and resumes after another took over. */
export interface EpochFence {
  /**
   * Call this right before each effect. It is synchronous, so this process does nothing else between the check and the
   * effect. It does not detect that the process was paused between the two.
   *
   * @throws NotLeading when a later epoch has begun
   */
  check(): void
}

/*
 * Each epoch is an empty file that has its number as its name; the highest number in the folder is the current epoch.
 * A single file that contains the number is not safe: a leader that is paused during its write could later overwrite
 * the number of its successor. With one file per epoch, it only adds a lower number, which changes nothing.
 */

export function createEpochFence({ directory, epoch }: { directory: string; epoch: number }): EpochFence {
  return {
    check() {
      const newest = highest(readdirSync(directory))
      if (newest > epoch) throw new NotLeading(epoch, `epoch ${newest} has begun`)
    },
  }
}

/** Announces an epoch to the fences of all processes that share the folder. Creates the folder if it is missing. */
export async function recordEpoch(directory: string, epoch: number): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  await writeFile(join(directory, String(epoch)), '', { mode: 0o600 })
  const older = (await readdir(directory)).filter((name) => isEpoch(name) && Number(name) < epoch)
  await Promise.all(older.map((name) => rm(join(directory, name), { force: true })))
}

/** Returns the newest epoch in the folder, 0 when there is none. */
export async function recordedEpoch(directory: string): Promise<number> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  return highest(names)
}

const isEpoch = (name: string): boolean => /^[1-9]\d{0,14}$/.test(name)

const highest = (names: readonly string[]): number =>
  names.reduce((newest, name) => (isEpoch(name) ? Math.max(newest, Number(name)) : newest), 0)

/*
 * An older leader cannot commit a write once a newer leader has begun to work. The newer leader (1) commits the higher
 * epoch, (2) finds the sessions of older epochs by their names and ends them until none is left, (3) begins. Each
 * connection of a leader (a) sets its name, (b) reads the epoch in a separate statement, and is used only if the
 * leader's epoch is still current. PostgreSQL shows a session's name to others from (a) until its last transaction has
 * ended.
 *
 * - A session with (a) before (2) is found, and has ended before (3). By then its last transaction has committed or
 *   rolled back.
 * - A session with (a) after (2) does (b) after (1), reads the higher epoch, and is refused.
 *
 * The epoch is read without a lock: the snapshot of (b) only has to be taken after (a). This holds at every isolation
 * level, because `set` takes no snapshot.
 */

const namePrefix = 'fairlead leader '

/**
 * Opens a pool whose connections can write while `epoch` is the newest epoch. Afterwards queries reject: with
 * `NotLeading` for a new connection, and with PostgreSQL's 57P01 (admin_shutdown) for a connection that was ended.
 */
export function openFencedDatabase(options: PoolOptions, epoch: number, logger: Logger): DatabaseHandle {
  return openDatabase({ ...options, onConnect: (client) => assertLeading(client, epoch) }, logger)
}

/** Takes one round trip. A statement sets the name, because a name in DATABASE_URL overrides a connection option. */
async function assertLeading(client: ClientBase, epoch: number): Promise<void> {
  const results = (await client.query(
    `set application_name = '${namePrefix}${epoch}'; select epoch from leadership`,
  )) as unknown as readonly QueryResult<{ epoch: string }>[]
  const newest = results[1]?.rows[0]?.epoch
  if (newest !== String(epoch)) throw new NotLeading(epoch, `epoch ${newest ?? 'of nobody'} has begun`)
}

/**
 * Ends the sessions of epochs before the parameter, and returns one row for each. PostgreSQL may evaluate the names of
 * sessions in all databases first. Other users choose these names, so the number may be too large for an integer type.
 */
export const endOlderSessions = `
  select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and application_name ~ '^${namePrefix}[0-9]+$'
    and substr(application_name, ${namePrefix.length + 1})::numeric < $1`
