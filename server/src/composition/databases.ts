import { type Accounts } from '../accounts/index.ts'
import { startDatabaseChecks } from '../databases/checks.ts'
import { createDatabases, type Databases } from '../databases/databases.ts'
import { databaseHandlers } from '../databases/handlers.ts'
import { dropTask, loginsTask, reconcileTask, snapshotTask } from '../databases/jobs.ts'
import { createCertificates } from '../databases/postgres/certificates.ts'
import { createEmbeddedEngine } from '../databases/postgres/embedded.ts'
import { type Engine } from '../databases/postgres/engine.ts'
import { createExternalEngine } from '../databases/postgres/external.ts'
import { createEngineHealth } from '../databases/postgres/health.ts'
import { type Announce, createDatabaseReconciler, type DatabaseReconciler, openEngines } from '../databases/reconciler.ts'
import { createRotationsCheck, type LinkedApps } from '../databases/rotation.ts'
import { createSnapshots } from '../databases/snapshots.ts'
import type { HandlersOf } from '../http/call.ts'
import type { Config } from '../platform/config.ts'
import type { BatchedRead } from '../platform/database/batcher.ts'
import type { Task } from '../platform/jobs.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { binariesReleases, createBinariesStore } from '../platform/postgres/binaries.ts'
import { databasesUser } from '../platform/state.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { announce } from '../webhooks/outbox.ts'
import type { Composition, RequestComposition, SharedParts } from './composition.ts'

/** The host in connection strings of the embedded engine, whose clusters listen only on loopback. */
const embeddedHost = '127.0.0.1'

/** The parts of the databases feature that other composers use. */
export interface DatabasesFeature {
  readonly handlers: HandlersOf<'databases' | 'snapshots'>
  /** Counts the databases of a project. */
  readonly count: BatchedRead<string, number>
  readonly ofProjects: Databases['ofProjects']
}

export interface DatabasesWork {
  readonly tasks: Readonly<Record<string, Task>>
  readonly removeProject: DatabaseReconciler['removeProject']
  /** Opens the engines of all databases, and starts the health checks. */
  start(): Promise<void>
  /** Resumes rotations of passwords, which linked apps follow, and returns the task that begins a rotation. */
  startRotations(linked: LinkedApps): Readonly<Record<string, Task>>
}

export function composeDatabases(
  composition: Composition,
  { tierOf }: Pick<Accounts, 'tierOf'>,
  { projectsOf }: Pick<Tenancy, 'projectsOf'>,
  { engine }: Pick<SharedParts, 'engine'>,
): DatabasesFeature {
  const { config, state, secrets } = composition
  const database = state.db
  const quota = { plans: config.plans, tierOf, projectsOf }
  const { retentionMs } = config.databases
  const databases = createDatabases({ ...quota, database, secrets, engine, retentionMs })
  const { count, ofProjects } = databases
  return { handlers: databaseHandlers(databases, createSnapshots({ ...quota, database })), count, ofProjects }
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

    startRotations(linked) {
      const change = (databaseId: string, signal: AbortSignal) => reconciler.changeLogins(databaseId, linked, signal)
      const check = startPeriodic({
        name: 'ending the former passwords of databases',
        everyMs: rotationsEveryMs,
        work: createRotationsCheck({ database, engine, logger, change }),
        logger,
      })
      stack.defer('rotations of passwords', () => check.stop())
      return { [loginsTask]: (job, signal) => change(String(job['database_id']), signal) }
    },
  }
}

/**
 * Creates the engine of users' databases: embedded clusters, or the operator's PostgreSQL. Every server process opens
 * the engine for its requests; the processes of a machine share the clusters.
 */
export async function composeEngine(composition: RequestComposition): Promise<Engine> {
  const { config, logger, state, stack } = composition
  const { url, ports, registryEnvironment } = config.databases
  const { databases: directory, databaseCertificates, runtime, binaries } = state.directory
  const user = databasesUser(config)
  const engine =
    url === undefined
      ? createEmbeddedEngine({
          directory,
          runtimeDirectory: runtime,
          user,
          host: embeddedHost,
          certificates: createCertificates({ directory: databaseCertificates, user, names: namesOf(config) }),
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
  followHealth(composition, engine)
  const renewal = startPeriodic({
    name: "renewing the certificate of users' databases",
    everyMs: renewalEveryMs,
    work: engine.renewCertificate,
    logger,
  })
  stack.defer("the certificate of users' databases", () => renewal.stop())
  return engine
}

const rotationsEveryMs = 1_000
const renewalEveryMs = 60 * 60_000
/** Wildcard listen addresses, which no client can use to reach the server. */
const everyAddress = ['0.0.0.0', '::']

/** Returns the host names of the clusters: loopback, and the public name for clients that forward a port. */
function namesOf({ publicAddress }: Pick<Config, 'publicAddress'>): string[] {
  const host = 'origin' in publicAddress ? new URL(publicAddress.origin).hostname : publicAddress.host
  const names = [embeddedHost, 'localhost', host.replace(/^\[|\]$/g, '')]
  return [...new Set(names)].filter((name) => !everyAddress.includes(name))
}

const healthEveryMs = 5_000

/** Reports in `/readyz`, metrics and the log when the PostgreSQL of users' databases does not answer. */
function followHealth({ application, metrics, logger, stack }: RequestComposition, engine: Engine): void {
  const health = createEngineHealth(engine, logger)
  application.addProblems(health.problems)
  metrics?.gauge({
    name: 'fairlead_database_engines',
    help: "1 for a PostgreSQL of users' databases that answers, 0 for one that does not, by version.",
    label: 'version',
    read: async () => health.answering(),
  })
  metrics?.gauge({
    name: 'fairlead_database_notifications',
    help: "How full the queue of notifications of users' databases is, from 0 to 1, by version.",
    label: 'version',
    read: async () => health.notifications(),
  })
  const check = startPeriodic({
    name: "looking at the PostgreSQL of users' databases",
    everyMs: healthEveryMs,
    work: health.check,
    logger,
  })
  stack.defer("the health of users' databases", () => check.stop())
}

/** Announces database events to the webhooks of the project's account, in the transaction of the change. */
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
