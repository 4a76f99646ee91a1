import { createEmbeddedEngine } from '../databases/embedded.ts'
import type { Engine } from '../databases/engine.ts'
import { createExternalEngine } from '../databases/external.ts'
import type { DatabaseParts } from '../databases/parts.ts'
import { createBinariesStore } from '../platform/postgres/install.ts'
import { binariesReleases } from '../platform/postgres/releases.ts'
import { databasesUser } from '../platform/state.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { announce } from '../webhooks/outbox.ts'
import type { Composition } from './composition.ts'

/** Where users' databases lie: in clusters of the server's own, or in the operator's PostgreSQL. */
export async function databaseEngine({ config, logger, state, stack }: Composition): Promise<Engine> {
  const { url, ports, registryEnvironment } = config.databases
  const { databases: directory, runtime, binaries } = state.directory
  const engine =
    url === undefined
      ? createEmbeddedEngine({
          directory,
          runtimeDirectory: runtime,
          user: databasesUser(config),
          ports,
          binaries: await createBinariesStore({
            directory: binaries,
            releases: binariesReleases,
            environment: registryEnvironment,
            logger,
          }),
          database: state.db,
          logger,
        })
      : createExternalEngine({ url, logger })
  stack.defer('database engines', () => engine.close())
  return engine
}

/** Announces what happens to databases to the webhooks of the project's account, in the transaction that makes it so. */
export function databaseAnnouncements(tenancy: Pick<Tenancy, 'accountOf'>): DatabaseParts['announce'] {
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
