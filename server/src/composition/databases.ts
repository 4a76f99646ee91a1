import { createEmbeddedEngine } from '../databases/engines/embedded.ts'
import type { Engine } from '../databases/engines/engine.ts'
import { createExternalEngine } from '../databases/engines/external.ts'
import type { Announce } from '../databases/events.ts'
import { dropTask, reconcileTask, snapshotTask } from '../databases/job-queue.ts'
import { createDatabases } from '../databases/operations/databases.ts'
import { databaseHandlers } from '../databases/operations/handlers.ts'
import { createSnapshots } from '../databases/operations/snapshots.ts'
import { startDatabaseChecks } from '../databases/reconciler/checks.ts'
import { openEngines } from '../databases/reconciler/open-engines.ts'
import { createDatabaseReconciler, type DatabaseReconciler } from '../databases/reconciler/reconciler.ts'
import type { HandlersOf } from '../http/call.ts'
import { type Database, openDatabase } from '../platform/database.ts'
import type { Task } from '../platform/jobs.ts'
import { createBinariesStore } from '../platform/postgres/install.ts'
import { binariesReleases } from '../platform/postgres/releases.ts'
import { databasesUser } from '../platform/startup/state.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { announce } from '../webhooks/outbox.ts'
import type { AccountsFeature } from './accounts.ts'
import type { Composition, SharedParts } from './composition.ts'

/** The host in connection strings of the embedded engine, whose clusters listen on loopback alone. */
const embeddedHost = '127.0.0.1'

/** The databases feature, as other composers use it. */
export interface DatabasesFeature {
  readonly handlers: HandlersOf<'databases' | 'snapshots'>
  /** Counts the databases of a project. */
  readonly count: (projectId: string) => Promise<number>
}

/** The work of the leader on databases. */
export interface DatabasesWork {
  readonly tasks: Readonly<Record<string, Task>>
  readonly removeProject: DatabaseReconciler['removeProject']
  /** Opens the engines of all databases, and begins to check them. */
  start(): Promise<void>
}

export function composeDatabases(
  composition: Composition,
  { tierOf }: Pick<AccountsFeature, 'tierOf'>,
  { engine }: Pick<SharedParts, 'engine'>,
): DatabasesFeature {
  const { config, state, secrets } = composition
  const database = state.db
  const databases = createDatabases({
    database,
    secrets,
    engine,
    plans: config.plans,
    retentionMs: config.databases.retentionMs,
    tierOf,
    autonomous: autonomousConnection(composition),
  })
  return { handlers: databaseHandlers(databases, createSnapshots({ database })), count: databases.count }
}

export function leadDatabases(
  { config, logger, state, secrets, stack }: Composition,
  tenancy: Pick<Tenancy, 'accountOf'>,
  { engine }: Pick<SharedParts, 'engine'>,
): DatabasesWork {
  const { plans } = config
  const database = state.db
  const announce = databaseAnnouncements(tenancy)
  const reconciler = createDatabaseReconciler({ database, secrets, engine, plans, announce, logger })
  return {
    tasks: {
      [reconcileTask]: (job, signal) => reconciler.reconcile(String(job['database_id']), signal),
      [dropTask]: (job, signal) => reconciler.drop(String(job['database_id']), signal),
      [snapshotTask]: (job, signal) => reconciler.reconcileSnapshot(String(job['snapshot_id']), signal),
    },
    removeProject: reconciler.removeProject,

    async start() {
      await reconciler.resume()
      await openEngines({ database, engine, logger }, stack.signal)
      const checks = startDatabaseChecks({ database, engine, plans, logger, reconciler })
      stack.defer('databases', () => checks.stop())
    },
  }
}

/**
 * Creates the engine of users' databases: clusters of the server's own, or the operator's PostgreSQL. Every server opens
 * them for its requests; clusters are shared by the processes of a machine.
 */
export async function composeEngine({ config, logger, state, stack }: Composition): Promise<Engine> {
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
  stack.defer('database engines', (scope) => engine.close({ keep: scope === 'server' }))
  return engine
}

/**
 * Opens one connection for writes that must be committed even when the transaction around them is rolled back. It is not one of
 * the pool, whose connections may all be held by such transactions.
 */
function autonomousConnection({ logger, state, stack }: Composition): Database {
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
