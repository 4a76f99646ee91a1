import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type ClientConfig } from 'pg'
import type { Logger } from './logger.ts'

/** `fairsrv1` in ASCII, as the 64-bit key of an advisory lock. */
const lockKey = Buffer.from('fairsrv1').readBigInt64BE().toString()

/** The connection of a server that was killed may be noticed a moment later. */
const patienceMs = 5_000
const pauseMs = 250

export interface ServerLock {
  release(): Promise<void>
}

/**
 * Takes the lock that one server at a time holds on a database, for as long as it lives. When the connection is lost
 * (the database was restarted) it is taken again; `onLost` is called if another server was faster.
 * Rejects when another server holds it.
 */
export async function takeServerLock(options: {
  readonly connection: ClientConfig
  readonly logger: Logger
  readonly onLost: () => void
}): Promise<ServerLock> {
  let client: Client | undefined
  let released = false

  const hold = (taken: Client): void => {
    client = taken
    taken.on('error', (error) => options.logger.warn({ err: error }, "the connection of the server's lock was lost"))
    taken.once('end', () => {
      if (!released) void regain()
    })
  }

  const regain = async (): Promise<void> => {
    const stopAt = performance.now() + patienceMs
    while (!released) {
      const again = await tryLock(options.connection).catch(() => 'unreachable' as const)
      if (typeof again === 'object') return hold(again)
      if (again === 'taken' && performance.now() > stopAt) return options.onLost()
      await sleep(pauseMs)
    }
  }

  const stopAt = performance.now() + patienceMs
  while (client === undefined) {
    const taken = await tryLock(options.connection)
    if (typeof taken === 'object') hold(taken)
    else if (performance.now() > stopAt) {
      throw new Error(
        'Another Fairlead server is running on this database. Stop it first, or use another data directory.',
      )
    } else await sleep(pauseMs)
  }

  return {
    async release() {
      released = true
      await client?.end()
    },
  }
}

async function tryLock(connection: ClientConfig): Promise<Client | 'taken'> {
  const client = new Client({ application_name: 'fairlead-server', keepAlive: true, ...connection })
  // Reported by the query that it breaks.
  client.on('error', () => undefined)
  await client.connect()
  const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [lockKey])
  if (rows[0]?.taken === true) return client
  await client.end()
  return 'taken'
}
