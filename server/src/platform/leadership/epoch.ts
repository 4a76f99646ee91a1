import { readdirSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ClientBase, QueryResult } from 'pg'
import { type DatabaseHandle, openDatabase, type PoolOptions } from '../database.ts'
import type { Logger } from '../logger.ts'

/** Thrown where a server that no longer leads tries to do what only the leader may do. It must not be retried. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading'
  readonly code = 'not_leading'
  /** The epoch in which the server led. */
  readonly epoch: number

  constructor(epoch: number, reason: string) {
    super(`This server led in epoch ${epoch} and no longer leads: ${reason}.`)
    this.epoch = epoch
  }
}

/** Protects effects outside of the database from a leader that was stopped and continues after another took over. */
export interface EpochFence {
  /**
   * To be called right before each effect. Synchronous, so that nothing of this process comes in between; a process
   * that is stopped between the check and the effect is not found out.
   *
   * @throws NotLeading when a later epoch has begun
   */
  check(): void
}

/*
 * The epoch is the highest number among the names in a folder, each the name of an empty file. One file with the number in
 * it would not do: a leader that is stopped while it writes could replace the number of its successor by its own. Here
 * it adds a lower number, which changes nothing.
 */

/** @param options.directory the folder that `recordEpoch` writes to */
export function createEpochFence({ directory, epoch }: { directory: string; epoch: number }): EpochFence {
  return {
    check() {
      const newest = highest(readdirSync(directory))
      if (newest > epoch) throw new NotLeading(epoch, `epoch ${newest} has begun`)
    },
  }
}

/** Makes an epoch known to the fences of all processes that share the folder, which is created when it is missing. */
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
 * Why no write of an older leader can commit once a newer one has begun to work. The newer leader (1) commits the higher
 * epoch, (2) looks for the sessions of older epochs by their names and ends them until there are none, (3) begins.
 * Each connection of a leader (a) takes its name, (b) reads the epoch in a statement of its own, and is used only when
 * that is still its own epoch. PostgreSQL shows a session's name to others from (a) until its last transaction has ended.
 *
 * - A session with (a) before (2) is seen, and gone before (3). Its last transaction has committed or rolled back before.
 * - A session with (a) after (2) does (b) after (1), reads the higher epoch, and is refused.
 *
 * The epoch is read without a lock: it is enough that the snapshot of (b) is taken after (a), which holds at every
 * isolation level, because `set` takes no snapshot.
 */

const namePrefix = 'fairlead leader '

/**
 * Opens a pool whose connections can write as long as `epoch` is the newest one. Afterwards queries reject, with
 * `NotLeading` where a new connection is refused, and with PostgreSQL's 57P01 (admin_shutdown) where one was ended.
 */
export function openFencedDatabase(options: PoolOptions, epoch: number, logger: Logger): DatabaseHandle {
  return openDatabase({ ...options, onConnect: (client) => assertLeading(client, epoch) }, logger)
}

/** One round trip. The name is not given at the connection, because a name in DATABASE_URL would replace it there. */
async function assertLeading(client: ClientBase, epoch: number): Promise<void> {
  const results = (await client.query(
    `set application_name = '${namePrefix}${epoch}'; select epoch from leadership`,
  )) as unknown as readonly QueryResult<{ epoch: string }>[]
  const newest = results[1]?.rows[0]?.epoch
  if (newest !== String(epoch)) throw new NotLeading(epoch, `epoch ${newest ?? 'of nobody'} has begun`)
}

/**
 * A statement that ends the sessions of epochs before its parameter, and returns one row for each. PostgreSQL may look at
 * the names of all databases' sessions first, which users of the same server choose: hence a number without a limit.
 */
export const endOlderSessions = `
  select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and application_name ~ '^${namePrefix}[0-9]+$'
    and substr(application_name, ${namePrefix.length + 1})::numeric < $1`
