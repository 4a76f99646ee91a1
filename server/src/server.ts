import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createAccounts, describeAccount } from './accounts/accounts.ts'
import { createApiKeys } from './accounts/api-keys.ts'
import { createAuditLog } from './accounts/audit-log.ts'
import { createAuthentication } from './accounts/authentication.ts'
import { accountHandlers } from './accounts/handlers.ts'
import { createKeys } from './accounts/keys.ts'
import { createPasswords } from './accounts/passwords.ts'
import { createRateLimiter } from './accounts/rate-limiter.ts'
import { createSessions } from './accounts/sessions.ts'
import { setupUrl } from './accounts/setup-url.ts'
import { createSignIn } from './accounts/sign-in.ts'
import { createUsers } from './accounts/users.ts'
import { createDatabases } from './databases/databases.ts'
import { createEmbeddedEngine } from './databases/embedded.ts'
import type { Engine } from './databases/engine.ts'
import { createExternalEngine } from './databases/external.ts'
import { databaseHandlers } from './databases/handlers.ts'
import { dropTask, settleTask, snapshotTask } from './databases/jobs.ts'
import type { DatabaseParts } from './databases/parts.ts'
import { createSnapshots } from './databases/snapshots.ts'
import { openEngines } from './databases/start.ts'
import { watchDatabases } from './databases/watch.ts'
import { createDatabaseWork } from './databases/work.ts'
import { publicUrl } from './deployments/addresses.ts'
import { type App, createApps } from './deployments/apps.ts'
import { createBuildSlots } from './deployments/build-slots.ts'
import { countByStatus } from './deployments/count.ts'
import { workOn } from './deployments/deployer.ts'
import { createDeployments } from './deployments/deployments.ts'
import { createDisk } from './deployments/disk.ts'
import { createGit } from './deployments/git.ts'
import { createGitCache } from './deployments/git-cache.ts'
import { deploymentHandlers } from './deployments/handlers.ts'
import { deployTask, startTask } from './deployments/jobs.ts'
import { createLifecycle } from './deployments/lifecycle.ts'
import { createListening } from './deployments/listening.ts'
import { createLogs } from './deployments/logs.ts'
import type { DeployParts } from './deployments/parts.ts'
import { createKeeper, type Keeper } from './deployments/reconcile.ts'
import { createReleases } from './deployments/releases.ts'
import { removeProject as removeDeployments } from './deployments/remove-project.ts'
import { createConfinement } from './deployments/runner/confinement.ts'
import { type Limits, limitsOf } from './deployments/runner/limits.ts'
import { describeMeans, findMeans } from './deployments/runner/means.ts'
import { createProcessRunner } from './deployments/runner/process-runner.ts'
import { enterProgram, preparePrograms } from './deployments/runner/programs.ts'
import { createDeploymentStore } from './deployments/store/store.ts'
import { createWork } from './deployments/work.ts'
import { createGateway } from './gateway/gateway.ts'
import { type Application, createApplication } from './http/application.ts'
import { dashboardDirectory, dashboardFiles } from './http/dashboard-files.ts'
import { forgetIdempotencyKeys } from './http/idempotency.ts'
import { createBackground } from './platform/background.ts'
import { type Config, publicOrigin, releasePorts } from './platform/config.ts'
import type { Transaction } from './platform/database.ts'
import { countJobs, prepareJobs, startWorkers, type Workers } from './platform/jobs.ts'
import { createKeyedLock } from './platform/keyed-lock.ts'
import type { Logger } from './platform/logger.ts'
import { createMetrics, type Metrics } from './platform/metrics.ts'
import { blockList, createOutbound } from './platform/outbound.ts'
import { startPeriodic } from './platform/periodic.ts'
import { planNamed } from './platform/plans.ts'
import { createBinariesStore } from './platform/postgres/install.ts'
import { binariesReleases } from './platform/postgres/releases.ts'
import { createReleaseStack, type ReleaseStack } from './platform/release-stack.ts'
import { openSecretBox } from './platform/secret-key.ts'
import type { SecretBox } from './platform/secrets.ts'
import { takeServerLock } from './platform/server-lock.ts'
import { databasesUser, isRoot, openState, type State } from './platform/state.ts'
import { projectHandlers } from './projects/handlers.ts'
import { createProjects } from './projects/projects.ts'
import { removeProject, removeProjectTask } from './projects/removal.ts'
import { createTenancy } from './projects/tenancy.ts'
import { createDiskStore } from './storage/disk.ts'
import { downloads } from './storage/download.ts'
import { createFiles } from './storage/files.ts'
import { storageHandlers } from './storage/handlers.ts'
import type { StorageParts } from './storage/parts.ts'
import { reconcileFiles } from './storage/settle.ts'
import { createDeliveries } from './webhooks/deliveries.ts'
import { webhookHandlers } from './webhooks/handlers.ts'
import { announce } from './webhooks/outbox.ts'
import { startSending } from './webhooks/sending.ts'
import { createWebhooks } from './webhooks/webhooks.ts'

export interface FairleadServer {
  /** Where it listens, such as `http://127.0.0.1:3000`. */
  readonly url: string
  /** Stops everything in order: no new work, running requests and jobs, apps, the database. */
  stop(): Promise<void>
}

export interface ServerOptions {
  readonly config: Config
  readonly logger: Logger
  /** Aborts a start that is under way. */
  readonly signal?: AbortSignal
  /** Called when the server cannot go on by itself and must be stopped. */
  readonly onFatal: (error: Error) => void
  /** Whether answers with undeclared fields are errors; for tests. */
  readonly strictResponses?: boolean
}

/** Deployments under way; their builds wait for one of fewer places. */
const deployConcurrency = 20
/** Releases being started again, which wait for no build. */
const startConcurrency = 5
const removalConcurrency = 2
const hourMs = 3_600_000
const databaseConcurrency = 10
const finishTimeoutMs = 10_000
const readinessTimeoutMs = 5_000

/**
 * Starts a whole server. It answers on `/healthz` and `/readyz` from the first moment; this resolves when the API is up.
 * Rejects with what is wrong (port, data directory, database, key), and leaves nothing running then.
 */
export async function startServer(options: ServerOptions): Promise<FairleadServer> {
  const { config, logger } = options
  const stack = createReleaseStack(logger, options.signal)
  try {
    const metrics = createMetrics({ logger })
    const application = createApplication({
      logger,
      metrics,
      metricsToken: config.metricsToken,
      pages: await dashboardFiles(dashboardDirectory),
      isTrustedProxy: proxyRule(config),
    })
    const { url, close } = await listen(application.server, config)
    stack.defer('http', close)
    sayWhereItStands(config, logger)

    const state = await openState({ config, logger, supervise: true, signal: stack.signal })
    stack.defer('database', () => state.close())
    const lock = await takeServerLock({
      connection: state.connection,
      logger,
      onLost: () => options.onFatal(new Error('Another Fairlead server has taken over this database.')),
    })
    stack.defer('server lock', () => lock.release())
    await prepareJobs(state.pool, logger)
    const secrets = await openSecretBox({
      database: state.db,
      given: config.secretKey,
      file: state.directory.secretKeyFile,
    })
    await compose({
      ...options,
      state,
      secrets,
      application,
      metrics,
      stack,
      publicOrigin: publicOrigin(config, Number(new URL(url).port || 80)),
    })
    // The first to stop, too: requests end while everything that they need is still there.
    stack.defer('http', close)
    logger.info({ url }, 'ready')
    return { url, stop: () => stack.unwind() }
  } catch (error) {
    await stack.unwind()
    throw error
  }
}

interface Composition extends ServerOptions {
  readonly state: State
  readonly secrets: SecretBox
  readonly application: Application
  readonly metrics: Metrics
  readonly stack: ReleaseStack
  /** Where others reach the server, without a path. */
  readonly publicOrigin: string
}

/** Makes the features, hands each what it needs of the others, and starts the work. */
async function compose(composition: Composition): Promise<void> {
  const { config, logger, state, secrets, application, stack } = composition
  const database = state.db
  const outbound = createOutbound(config.outbound)
  const accounts = createAccounts({ database })
  const operatorId = await accounts.ensureOperator()
  const users = createUsers({ database })
  const sessions = createSessions({ database })
  const auditLog = createAuditLog({ database })
  const store = createDeploymentStore({ database })
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
  const databaseParts: DatabaseParts = {
    database,
    secrets,
    engine: await databaseEngine(composition),
    plans: config.plans,
    retentionMs: config.databases.retentionMs,
    tierOf,
    announce: async (trx, { projectId, databaseId, ...happened }) => {
      const accountId = await tenancy.accountOf(projectId)
      const ids = { database_id: databaseId, project_id: projectId }
      if (happened.event === 'database.failed') {
        const { event, failure } = happened
        await announce(trx, { accountId, projectId, event, data: { ...ids, failure } })
      } else {
        await announce(trx, { accountId, projectId, event: happened.event, data: ids })
      }
    },
    logger,
  }
  const databases = createDatabases(databaseParts)
  const projects = createProjects({
    database,
    regions: config.regions,
    defaultRegion: config.defaultRegion,
    plans: config.plans,
    tierOf,
    countDeployments: store.count,
    countDatabases: databases.count,
    storedBytes: files.storedBytes,
  })
  const webhooks = createWebhooks({
    database,
    secrets,
    outbound,
    ownsProject: async (transaction, principal, id) =>
      (await createTenancy({ database: transaction }).find(principal.accountId, id)) !== undefined,
  })

  const parts = await deployParts(composition, {
    limitsOf: async (projectId) => limitsOf(planNamed(config.plans, await tenancy.planOf(projectId))),
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

  const databaseWork = createDatabaseWork(databaseParts)
  await databaseWork.resume()
  // Before the apps, which look for their databases as soon as they start.
  await openEngines(databaseParts, stack.signal)
  const databaseWatch = watchDatabases(databaseParts, databaseWork)
  stack.defer('databases', () => databaseWatch.stop())

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
          [settleTask]: (job, signal) => databaseWork.settle(String(job['database_id']), signal),
          [dropTask]: (job, signal) => databaseWork.drop(String(job['database_id']), signal),
          [snapshotTask]: (job, signal) => databaseWork.settleSnapshot(String(job['snapshot_id']), signal),
        },
      },
      {
        concurrency: removalConcurrency,
        tasks: {
          [removeProjectTask]: (job, signal) => {
            const removers = [
              (id: string) => removeDeployments(parts, id),
              (id: string) => databaseWork.removeProject(id, signal),
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
    authenticate: createAuthentication({ database, plans: config.plans }),
    countRequest: createRateLimiter({ database }).count,
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
    downloads: downloads({ store: storage.store, byAddress: files.byAddress }),
    strict: composition.strictResponses ?? false,
    handlers: {
      ...projectHandlers(projects),
      ...deploymentHandlers({ deployments, lifecycle, logs }),
      ...databaseHandlers(databases, createSnapshots(databaseParts)),
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

/** What keeps the server from working, in words for everybody. */
function readiness(state: State, workers: Workers, logger: Logger): () => Promise<string | undefined> {
  return async () => {
    const late = AbortSignal.timeout(readinessTimeoutMs)
    try {
      await Promise.race([state.pool.query('select 1'), once(late, 'abort').then(() => Promise.reject(late.reason))])
    } catch (error) {
      logger.debug({ err: error }, 'not ready')
      return 'the database does not answer'
    }
    return workers.isRunning() ? undefined : 'the work on jobs has broken off'
  }
}

function countIn(metrics: Metrics, state: State): void {
  metrics.gauge({
    name: 'fairlead_jobs',
    help: 'Jobs by state: waiting, running, failed for good.',
    label: 'state',
    read: async () => ({ ...(await countJobs(state.pool)) }),
  })
  metrics.gauge({
    name: 'fairlead_deployments',
    help: 'Deployments by status.',
    label: 'status',
    read: () => countByStatus(state.db),
  })
}

/** Whether what comes from an address is believed about its client. */
function proxyRule(config: Config): (address: string) => boolean {
  const trusted = blockList(config.trustedProxies)
  return (address) => trusted.check(address, address.includes(':') ? 'ipv6' : 'ipv4')
}

async function storageParts(
  { config, logger, state, secrets, stack, publicOrigin }: Composition,
  given: Pick<StorageParts, 'holdProject' | 'announceUpload'>,
): Promise<StorageParts> {
  const background = createBackground({ logger })
  stack.defer('removal of files', () => background.settle(finishTimeoutMs))
  const parts = {
    ...given,
    database: state.db,
    store: await createDiskStore({ directory: state.directory.files }),
    secrets,
    plans: config.plans,
    background,
    logger,
    publicOrigin,
    idleTimeoutMs: config.uploadIdleTimeoutMs,
  }
  await reconcileFiles(parts)
  return parts
}

/** Where users' databases lie: in clusters of the server's own, or in the operator's PostgreSQL. */
async function databaseEngine({ config, logger, state, stack }: Composition): Promise<Engine> {
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

async function deployParts(
  composition: Composition,
  {
    limitsOf,
    ...given
  }: Pick<DeployParts, 'store' | 'outbound' | 'announce'> & { limitsOf: (projectId: string) => Promise<Limits> },
): Promise<DeployParts> {
  const { config, logger, state, secrets, stack } = composition
  const { directory } = state
  // The first and the last belong to PostgreSQL.
  const appUids = isRoot() ? { from: config.uids.from, to: config.uids.to - 1 } : null
  const programs = await preparePrograms({
    runtime: directory.runtime,
    bin: directory.bin,
    user: appUids === null ? null : { uid: appUids.from + 1, gid: appUids.from + 1 },
  })
  const gateway = createGateway({
    logger,
    host: config.host,
    apps:
      config.apps.mode === 'ports'
        ? { mode: 'ports' }
        : { mode: 'hostnames', port: config.apps.gatewayPort, scheme: config.apps.scheme },
    isTrustedProxy: proxyRule(config),
  })
  stack.defer('gateway', () => gateway.stop({ timeoutMs: finishTimeoutMs }))
  try {
    await gateway.listen()
  } catch (error) {
    throw listenError(error as NodeJS.ErrnoException, config.host, gatewayPort(config), 'FAIRLEAD_GATEWAY_PORT')
  }
  const means = await findMeans({
    cgroups: config.cgroups,
    path: config.path,
    directory: directory.root,
    isRoot: isRoot(),
    programs: programs.paths,
  })
  stack.defer('control groups', async () => means.cgroups?.close())
  const confinement = createConfinement(means)
  if (confinement.warning !== null) logger.warn(confinement.warning)
  logger.info(describeMeans(means), 'what holds builds and apps')
  const background = createBackground({ logger })
  stack.defer('background work', () => background.settle(config.deploys.drainMs + finishTimeoutMs))

  return {
    ...given,
    database: state.db,
    apps: createApps({ database: state.db, gateway, config: config.apps }),
    releases: createReleases({
      directory: directory.apps,
      logDirectory: directory.logs,
      uids: appUids,
      limitsOf,
      secrets,
    }),
    runner: createProcessRunner({
      node: programs.node,
      bin: programs.bin,
      buildEnvironment: config.deploys.environment,
      ports: releasePorts,
      confinement,
      enter: enterProgram,
      logger,
    }),
    gateway,
    disk: createDisk({ directory: directory.root, reserveBytes: config.deploys.reserveBytes }),
    listening: createListening({ gateway, logger }),
    gitCache: createGitCache({ directory: join(directory.git, 'caches') }),
    git: await createGit({
      directory: directory.git,
      path: config.path,
      allowFile: config.localMode,
      useOwnSshKeys: config.localMode,
      environment: config.deploys.environment,
    }),
    work: createWork(),
    appLock: createKeyedLock(),
    background,
    buildSlots: createBuildSlots(config.deploys.builds),
    settings: config.deploys,
    planOptions: { nodeVersion: process.versions.node },
    allowFile: config.localMode,
    listenerOf: (app: App) => ({
      host: reachableHost(config.host),
      port: 'port' in app.address ? app.address.port : gatewayPort(config),
    }),
    urlOf: (app) => publicUrl(app.address, config.apps),
    logger,
  }
}

/** Whether an address is one of these addresses and networks. */
function gatewayPort(config: Config): number {
  return config.apps.mode === 'hostnames' ? config.apps.gatewayPort : 0
}

async function keepApps(keeper: Keeper, parts: DeployParts, stack: ReleaseStack): Promise<void> {
  await keeper.begin()
  const watching = new AbortController()
  const watch = keeper.watch(watching.signal)
  stack.defer('apps', async () => {
    watching.abort()
    await watch
    await keeper.stopAll()
  })
  parts.logger.debug('apps are looked after')
}

async function listen(server: Server, config: Config): Promise<{ url: string; close: () => Promise<void> }> {
  server.listen(config.port, config.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw listenError(error as NodeJS.ErrnoException, config.host, config.port, '--port or FAIRLEAD_PORT')
  }
  const { port } = server.address() as AddressInfo
  const url = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`
  const close = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    const cut = setTimeout(() => server.closeAllConnections(), finishTimeoutMs)
    await closed
    clearTimeout(cut)
  }
  return { url, close }
}

function listenError(error: NodeJS.ErrnoException, host: string, port: number, settings: string): Error {
  const where = `${host}:${port}`
  if (error.code === 'EADDRINUSE') {
    return new Error(`The address ${where} is taken by another program. Choose another port with ${settings}.`)
  }
  if (error.code === 'EACCES') {
    return new Error(`This user may not listen on ${where}. Choose a port above 1023 with ${settings}.`)
  }
  return new Error(`The server cannot listen on ${where}: ${error.message}. Check the host and ${settings}.`)
}

/** An address that leads to a listener on `host` from this machine. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}

function sayWhereItStands(config: Config, logger: Logger): void {
  if (config.localMode) {
    logger.info('local mode: only this machine reaches the server, and file: repositories may be deployed')
  }
}
