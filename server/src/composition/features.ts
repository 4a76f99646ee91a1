import { createAccounts, describeAccount } from '../accounts/accounts.ts'
import { createApiKeys } from '../accounts/api-keys.ts'
import { createAuditLog } from '../accounts/audit-log.ts'
import { createAuthentication } from '../accounts/authentication.ts'
import { accountHandlers } from '../accounts/handlers.ts'
import { createKeys } from '../accounts/keys.ts'
import { createPasswords } from '../accounts/passwords.ts'
import { createRateLimiter } from '../accounts/rate-limiter.ts'
import { createSessions } from '../accounts/sessions.ts'
import { setupUrl } from '../accounts/setup-url.ts'
import { createSignIn } from '../accounts/sign-in/sign-in.ts'
import { createUsers } from '../accounts/users.ts'
import { dropTask, reconcileTask, snapshotTask } from '../databases/job-queue.ts'
import { createDatabases } from '../databases/operations/databases.ts'
import { databaseHandlers } from '../databases/operations/handlers.ts'
import { createSnapshots } from '../databases/operations/snapshots.ts'
import { startDatabaseChecks } from '../databases/reconciler/checks.ts'
import { openEngines } from '../databases/reconciler/open-engines.ts'
import { createDatabaseReconciler } from '../databases/reconciler/reconciler.ts'
import { workOn } from '../deployments/deployer.ts'
import { createDeployments } from '../deployments/deployments.ts'
import { deploymentHandlers } from '../deployments/handlers.ts'
import { deployTask, startTask } from '../deployments/jobs.ts'
import { createLifecycle } from '../deployments/lifecycle.ts'
import { createLogs } from '../deployments/logs.ts'
import { createKeeper } from '../deployments/reconcile.ts'
import { removeProject as removeDeployments } from '../deployments/remove-project.ts'
import { limitsOf } from '../deployments/runner/limits.ts'
import { createDeploymentStore } from '../deployments/store/store.ts'
import { createTraffic } from '../deployments/traffic.ts'
import { forgetIdempotencyKeys } from '../http/operations/idempotency-keys.ts'
import type { Transaction } from '../platform/database.ts'
import { startWorkers } from '../platform/jobs.ts'
import { createOutbound } from '../platform/outbound.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { planNamed, webhooksOf } from '../platform/plans.ts'
import { projectHandlers } from '../projects/handlers.ts'
import { createProjects } from '../projects/projects.ts'
import { removeProject, removeProjectTask } from '../projects/removal.ts'
import { createTenancy } from '../projects/tenancy.ts'
import { downloads } from '../storage/download.ts'
import { createFiles } from '../storage/files.ts'
import { storageHandlers } from '../storage/handlers.ts'
import { createDeliveries } from '../webhooks/deliveries.ts'
import { startSending } from '../webhooks/delivery/sending.ts'
import { webhookHandlers } from '../webhooks/handlers.ts'
import { announce } from '../webhooks/outbox.ts'
import { createWebhooks } from '../webhooks/webhooks.ts'
import { deployParts, keepApps } from './apps.ts'
import type { Composition } from './composition.ts'
import { autonomousConnection, databaseAnnouncements, databaseEngine } from './databases.ts'
import { countIn, readiness } from './health.ts'
import { storageParts } from './storage.ts'

/** Deployments under way; their builds wait for one of fewer places. */
const deployConcurrency = 20
/** Releases being started again, which wait for no build. */
const startConcurrency = 5
const removalConcurrency = 2
const hourMs = 3_600_000
const databaseConcurrency = 10

/** Makes the features, hands each what it needs of the others, and starts the work. */
export async function compose(composition: Composition): Promise<void> {
  const { config, logger, state, secrets, application, stack } = composition
  const database = state.db
  const outbound = createOutbound(config.outbound)
  const accounts = createAccounts({ database })
  const operatorId = await accounts.ensureOperator()
  const users = createUsers({ database })
  const sessions = createSessions({ database })
  const auditLog = createAuditLog({ database })
  const store = createDeploymentStore({ database })
  const traffic = createTraffic({ database })
  const tenancy = createTenancy({ database })
  const tierOf = async (transaction: Transaction, accountId: string) =>
    (await accounts.get(accountId, transaction))?.plan ?? 'free'
  const storage = await storageParts(composition, {
    holdProject: tenancy.hold,
    announceUpload: (trx, { accountId, projectId, fileId, ...data }) =>
      announce(trx, {
        accountId,
        projectId,
        event: 'file.uploaded',
        data: { file_id: fileId, project_id: projectId, ...data },
      }),
  })
  const files = createFiles(storage)
  const engine = await databaseEngine(composition)
  const databases = createDatabases({
    database,
    secrets,
    engine,
    plans: config.plans,
    retentionMs: config.databases.retentionMs,
    tierOf,
    autonomous: autonomousConnection(composition),
  })
  const projects = createProjects({
    database,
    regions: config.regions,
    defaultRegion: config.defaultRegion,
    plans: config.plans,
    tierOf,
    countDeployments: store.count,
    countDatabases: databases.count,
    storedBytes: files.storedBytes,
    trafficOf: traffic.ofProject,
  })
  const webhooks = createWebhooks({
    database,
    secrets,
    outbound,
    ownsProject: async (transaction, principal, id) =>
      (await createTenancy({ database: transaction }).find(principal.accountId, id)) !== undefined &&
      (await tenancy.hold(transaction, id)),
    maxWebhooks: async (transaction, accountId) => webhooksOf(config.plans, await tierOf(transaction, accountId)),
  })

  const parts = await deployParts(composition, {
    limitsOf: async (projectId) => limitsOf(planNamed(config.plans, await tenancy.planOf(projectId))),
    traffic,
    store,
    outbound,
    announce: (transaction, { event, row, url, ...more }) =>
      announce(transaction, {
        accountId: row.account_id,
        projectId: row.project_id,
        event,
        data: { deployment_id: row.id, project_id: row.project_id, url, ...more },
      }),
  })
  const deployments = createDeployments({
    ...parts,
    secrets,
    plans: config.plans,
    appsConfig: config.apps,
  })
  const lifecycle = createLifecycle(parts, { appsConfig: config.apps })
  const logs = createLogs({ ...parts, stopping: stack.signal })

  const databaseReconciler = createDatabaseReconciler({
    database,
    secrets,
    engine,
    plans: config.plans,
    announce: databaseAnnouncements(tenancy),
    logger,
  })
  await databaseReconciler.resume()
  // Before the apps, which look for their databases as soon as they start.
  await openEngines({ database, engine, logger }, stack.signal)
  const databaseChecks = startDatabaseChecks({
    database,
    engine,
    plans: config.plans,
    logger,
    reconciler: databaseReconciler,
  })
  stack.defer('databases', () => databaseChecks.stop())

  await keepApps(createKeeper(parts), parts, stack)
  const workers = await startWorkers({
    pool: state.pool,
    logger,
    lanes: [
      {
        concurrency: deployConcurrency,
        tasks: { [deployTask]: (job, signal) => workOn(parts, String(job['deployment_id']), signal) },
      },
      {
        concurrency: startConcurrency,
        tasks: { [startTask]: (job, signal) => workOn(parts, String(job['deployment_id']), signal) },
      },
      {
        concurrency: databaseConcurrency,
        tasks: {
          [reconcileTask]: (job, signal) => databaseReconciler.reconcile(String(job['database_id']), signal),
          [dropTask]: (job, signal) => databaseReconciler.drop(String(job['database_id']), signal),
          [snapshotTask]: (job, signal) => databaseReconciler.reconcileSnapshot(String(job['snapshot_id']), signal),
        },
      },
      {
        concurrency: removalConcurrency,
        tasks: {
          [removeProjectTask]: (job, signal) => {
            const removers = [
              (id: string) => removeDeployments(parts, id),
              (id: string) => databaseReconciler.removeProject(id, signal),
              files.removeProject,
            ]
            return removeProject({ database, removers }, String(job['project_id']))
          },
        },
      },
    ],
  })
  stack.defer('jobs', () => workers.stop())
  const sending = startSending({
    database,
    connection: state.connection,
    secrets,
    outbound,
    retentionMs: config.webhooks.retentionMs,
    logger,
  })
  stack.defer('webhooks', () => sending.stop())

  application.mount({
    database,
    secrets,
    keys: {
      authenticate: createAuthentication({ database, plans: config.plans }),
      countRequest: createRateLimiter({ database }).count,
    },
    audit: auditLog.write,
    dashboard: {
      authenticate: sessions.authenticate,
      handlers: createSignIn({
        database,
        accounts,
        users,
        sessions,
        passwords: createPasswords(),
        audit: auditLog.write,
        operatorId,
      }),
    },
    findProject: (principal, id) => tenancy.find(principal.accountId, id),
    holdProject: tenancy.hold,
    downloads: downloads({ store: storage.store, byAddress: files.byAddress }),
    strict: composition.strictResponses ?? false,
    handlers: {
      ...projectHandlers(projects),
      ...deploymentHandlers({ deployments, lifecycle, logs }),
      ...databaseHandlers(databases, createSnapshots({ database })),
      ...storageHandlers(files),
      ...webhookHandlers(webhooks, createDeliveries({ database })),
      ...accountHandlers({
        describe: (accountId) => describeAccount({ database, plans: config.plans }, accountId),
        apiKeys: createApiKeys({
          keys: createKeys({ database }),
          ownsProject: async (accountId, id) => (await tenancy.find(accountId, id)) !== undefined,
        }),
        auditLog,
      }),
    },
  })
  application.setReadiness(readiness(state, workers, logger))
  countIn(composition.metrics, state)

  const housekeeping = startPeriodic({
    name: 'removing what is too old',
    everyMs: hourMs,
    work: async () => {
      await sessions.forget()
      await users.forget()
      await auditLog.forget(config.auditRetentionDays)
      await traffic.forget()
      await forgetIdempotencyKeys(database)
    },
    logger,
  })
  stack.defer('housekeeping', () => housekeeping.stop())
  if (!(await users.any())) {
    const token = await users.createSetupLink(operatorId)
    const link = setupUrl(composition.publicOrigin, token)
    logger.info({ link }, 'there is no user yet: open this link within an hour to make the first one')
  }
}
