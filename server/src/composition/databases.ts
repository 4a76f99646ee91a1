import { createEmbeddedEngine } from '../databases/engines/embedded.ts'
import type { Engine } from '../databases/engines/engine.ts'
import { createExternalEngine } from '../databases/engines/external.ts'
import type { Announce } from '../databases/events.ts'
import { type Database, openDatabase } from '../platform/database.ts'
import { createBinariesStore } from '../platform/postgres/install.ts'
import { binariesReleases } from '../platform/postgres/releases.ts'
import { databasesUser } from '../platform/startup/state.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { announce } from '../webhooks/outbox.ts'
import type { Composition } from './composition.ts'

/** The host in connection strings of the embedded engine, whose clusters listen on loopback alone. */
const embeddedHost = '127.0.0.1'

/** Creates the engine of users' databases: clusters of the server's own, or the operator's PostgreSQL. */
export async function databaseEngine({ config, logger, state, stack }: Composition): Promise<Engine> {
  const { url, ports, registryEnvironment } = config.databases
  const { databases: directory, runtime, binaries } = state.directory
  const engine =
    url === undefined
      ? createEmbeddedEngine({
          directory,
          runtimeDirectory: runtime,
          user: databasesUser(config),
          host: embeddedHost,
          ports,
          binaries: await createBinariesStore({
            directory: binaries,
            releases: binariesReleases,
            environment: registryEnvironment,
            logger,
          }),
          logger,
        })
      : createExternalEngine({ url, logger })
  stack.defer('database engines', () => engine.close())
  return engine
}

/**
 * Opens one connection for writes that must be committed whatever becomes of the transaction around them. It is not one of
 * the pool, whose connections may all be held by such transactions.
 */
export function autonomousConnection({ logger, state, stack }: Composition): Database {
  const handle = openDatabase({ ...state.connection, max: 1 }, logger)
  stack.defer('autonomous connection', () => handle.close())
  return handle.db
}

/** Announces events of databases to the webhooks of the project's account, in the transaction that makes it so. */
export function databaseAnnouncements(tenancy: Pick<Tenancy, 'accountOf'>): Announce {
  return async (transaction, { projectId, databaseId, ...happened }) => {
    const accountId = await tenancy.accountOf(transaction, projectId)
    const ids = { database_id: databaseId, project_id: projectId }
    if (happened.event === 'database.failed') {
      const { event, failure } = happened
      await announce(transaction, { accountId, projectId, event, data: { ...ids, failure } })
    } else {
      await announce(transaction, { accountId, projectId, event: happened.event, data: ids })
    }
  }
}
