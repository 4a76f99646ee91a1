import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Range } from '../platform/config.ts'
import type { Database } from '../platform/database.ts'
import { readOptional } from '../platform/files.ts'
import type { Logger } from '../platform/logger.ts'
import type { ClusterAccess } from '../platform/postgres/access.ts'
import { type Cluster, openCluster } from '../platform/postgres/cluster.ts'
import type { BinariesStore } from '../platform/postgres/install.ts'
import type { OsUser } from '../platform/users.ts'
import { type Engine, EngineError } from './engine.ts'
import { createInstance, type Instance } from './instance.ts'
import type { DatabasesTables } from './tables.ts'

/** These binaries bundle an old OpenSSL, so they are for this machine alone. */
const host = '127.0.0.1'

/**
 * Who gets in: Fairlead through the socket, which lies in a folder that only it can enter; and over TCP each role into
 * the database of its own name, whatever rights anybody may have granted it on another.
 */
const hba = `local all      fairlead              trust
host  all      fairlead ${host}/32 reject
host  sameuser all      ${host}/32 scram-sha-256
`

const settings = {
  max_connections: '400',
  superuser_reserved_connections: '12',
  // A client that does not say who it is holds a place of everybody's for this long.
  authentication_timeout: '10s',
  shared_buffers: '128MB',
  // All sessions together: 256 × 400 locks. See the guard in watch.ts.
  max_locks_per_transaction: '256',
  max_prepared_transactions: '0',
  password_encryption: 'scram-sha-256',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  // Users' mistakes and what they typed are not the operator's to read, nor to keep.
  log_min_messages: 'fatal',
  log_min_error_statement: 'panic',
}

/** Of one session, shared memory aside. */
const processMemory = 512 * 1024 * 1024

interface Running {
  readonly cluster: Cluster
  readonly instance: Instance
}

/**
 * PostgreSQL clusters of the server's own for users' databases, one a version, apart from the one that holds Fairlead's
 * state: started when first needed, supervised, stopped with the server, and taken over again after it was killed.
 */
export function createEmbeddedEngine(options: {
  /** One folder a version. */
  readonly directory: string
  /** For copies of binaries that `user` could not reach. */
  readonly runtimeDirectory: string
  /** Whom the clusters run as when the server is root, else `null`. */
  readonly user: OsUser | null
  readonly ports: Range
  readonly binaries: BinariesStore
  readonly database: Database
  readonly logger: Logger
}): Engine {
  const { binaries, ports, logger } = options
  const db = options.database.withTables<DatabasesTables>()
  const closing = new AbortController()
  const opening = new Map<string, Promise<Running>>()
  const running = new Map<string, Running>()

  const start = async (version: string): Promise<Running> => {
    const { signal } = closing
    const found = await binaries.install(version, signal).catch((error: unknown) => {
      throw new EngineError('version_unavailable', messageOf(error), { cause: error })
    })
    const { port } = await db
      .selectFrom('database_clusters')
      .select('port')
      .where('version', '=', version)
      .executeTakeFirstOrThrow()
    const access: ClusterAccess = {
      database: 'postgres',
      port,
      listen: host,
      hba,
      settings,
      processMemory,
    }
    const cluster = await openCluster({
      directory: join(options.directory, version, 'data'),
      runtimeDirectory: options.runtimeDirectory,
      user: options.user,
      logger,
      signal,
      supervise: true,
      binaries: found,
      access,
    }).catch((error: unknown) => {
      logger.error({ err: error, version }, "the PostgreSQL of users' databases does not start")
      const message = `PostgreSQL ${version} does not start on this server; its operator finds the reason in the log.`
      throw new EngineError('engine_unavailable', message, { cause: error })
    })
    const onLost = (error: Error) => logger.debug({ err: error, version }, 'an administrative connection was lost')
    const made = { cluster, instance: createInstance({ ...cluster.connection }, onLost) }
    running.set(version, made)
    return made
  }

  return {
    name: 'embedded',
    versions: async () => binaries.majors,

    async addressOf(transaction, version) {
      const trx = transaction.withTables<DatabasesTables>()
      const find = () =>
        trx.selectFrom('database_clusters').select('port').where('version', '=', version).executeTakeFirst()
      const found = await find()
      if (found !== undefined) return { host, port: found.port }
      const rows = await trx.selectFrom('database_clusters').select('port').execute()
      const port = await freePort(ports, new Set(rows.map((row) => row.port)))
      await trx
        .insertInto('database_clusters')
        .values({ version, port })
        .onConflict((conflict) => conflict.column('version').doNothing())
        .execute()
      return { host, port: (await find())?.port ?? port }
    },

    async open(version, signal) {
      closing.signal.throwIfAborted()
      // Those who ask meanwhile wait for the same start.
      const started = opening.get(version) ?? start(version)
      opening.set(version, started)
      started.catch(() => opening.delete(version))
      const aborted = Promise.withResolvers<never>()
      const abort = () => aborted.reject(signal.reason)
      signal.addEventListener('abort', abort)
      try {
        return (await Promise.race([started, aborted.promise])).instance
      } finally {
        signal.removeEventListener('abort', abort)
      }
    },

    exists: async (version) =>
      (await readOptional(join(options.directory, version, 'data', 'PG_VERSION'))) !== undefined,

    running: (version) => running.get(version)?.instance ?? null,

    async close() {
      closing.abort(new Error('the server is stopping'))
      await Promise.allSettled(opening.values())
      await Promise.all(
        [...running.values()].map(async ({ cluster, instance }) => {
          await instance.close()
          await cluster.close()
        }),
      )
    },
  }
}

/** A port that nobody listens on, at random, so that servers that look at the same time hardly ever agree. */
async function freePort({ from, to }: Range, taken: ReadonlySet<number>): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(from, to + 1)
    if (!taken.has(port) && (await isFree(port))) return port
  }
  throw new Error(`No free port was found from ${from} to ${to}. Widen FAIRLEAD_DATABASE_PORTS.`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const listening = once(server, 'listening')
  server.listen(port, host)
  try {
    await listening
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
