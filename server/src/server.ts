import { randomUUID } from 'node:crypto'
import type { Server } from 'node:http'
import { createPlanApart, type PlanApart } from './builds/planner.ts'
import { leadEdge } from './edge/lead.ts'
import { createAccounts, createOverview } from './features/accounts/index.ts'
import { createApps } from './features/apps/index.ts'
import { createCertificates } from './features/certificates/index.ts'
import { createLinkedDatabases } from './features/databases/credentials.ts'
import { createDatabaseEngine, createDatabases } from './features/databases/index.ts'
import { createDeployments, createReleaseReads } from './features/deployments/index.ts'
import { countByStatus } from './features/deployments/reads.ts'
import { createDomains } from './features/domains/index.ts'
import { createProjects, createTenancy } from './features/projects/index.ts'
import { createRunConnections, createRuns, type RunConnections } from './features/runs/index.ts'
import { createStorage } from './features/storage/index.ts'
import { createWebhooks, type WebhooksWork } from './features/webhooks/index.ts'
import { edgeSockets } from './gateway/gateway.ts'
import { listenerOf } from './gateway/listener.ts'
import { closeForgottenApps, startGateway } from './gateway/start.ts'
import { type Application, createApplication } from './http/application.ts'
import type { EdgeListener } from './http/edge-listener.ts'
import { assertWritable, readiness, registerGauges, registerLostLines, registerRole } from './http/health.ts'
import { forgetIdempotencyKeys } from './http/idempotency.ts'
import { listen, mostConnections } from './http/listen.ts'
import type { ProtectedMetrics } from './http/middleware.ts'
import { createRetirement } from './http/retirement.ts'
import { dashboardDirectory, dashboardFiles } from './http/static-files.ts'
import { endLeftovers } from './leftovers.ts'
import { createLogStore } from './logs/log-store.ts'
import { forgetAttempts } from './platform/attempts.ts'
import { watchClock } from './platform/clock.ts'
import { type Config, publicOrigin } from './platform/config.ts'
import { findLeader } from './platform/control/client.ts'
import { openPresence, type Presence } from './platform/control/server.ts'
import { type DataDirectory, foreignOwner, openDataDirectory } from './platform/data-directory.ts'
import { connectionBudget } from './platform/database/connection-budget.ts'
import { createRequestTransactions } from './platform/database/request-transactions.ts'
import type { Database } from './platform/database.ts'
import { createCaches } from './platform/disk/caches.ts'
import { releaseBallast, restoreBallast } from './platform/disk/free-space.ts'
import type { Takeover } from './platform/handover.ts'
import {
  bringJobsForward,
  prepareJobs,
  startWorkers,
  type Task,
  unlockDeadJobs,
  type Workers,
} from './platform/jobs.ts'
import { contend, type FencedLeadership, type Leading, register } from './platform/leadership/membership.ts'
import type { Logger } from './platform/logger.ts'
import type { Metrics } from './platform/metrics.ts'
import { migrations } from './platform/migrations/index.ts'
import { addressesIn, createOutbound } from './platform/outbound.ts'
import { startPeriodic } from './platform/periodic.ts'
import { assertUsableSchema } from './platform/schema.ts'
import { openSecretBox, type SecretBox } from './platform/secrets.ts'
import {
  createShutdownStack,
  finishTimeoutMs,
  finishTransfersMs,
  type ShutdownStack,
  type StopScope,
  scopeOf,
} from './platform/shutdown.ts'
import { createSlots } from './platform/slots.ts'
import { clusterUser, openState, type State } from './platform/state.ts'
import { isKeptCache, runtimeCacheFolders } from './runtimes/caches.ts'
import { runtimeNames } from './runtimes/names.ts'
import type { Runtime } from './runtimes/runtime.ts'
import { type HostCapabilities, startRuntimes } from './runtimes/start.ts'
import { openSources, repositoryCacheFolders } from './sources/open.ts'

export interface ServerOptions {
  readonly config: Config
  readonly logger: Logger
  readonly lostLogLines?: () => number
  readonly signal?: AbortSignal
  /** Called when the server cannot go on and must be stopped. */
  readonly onFatal: (error: Error) => void
  /** Called when a command asks the server to stop; by default the server just stops. */
  readonly onStopRequest?: (scope: StopScope) => void
  /** Called when a command asks the server to hand over; resolves with the server that has taken over. */
  readonly onHandoverRequest?: () => Promise<unknown>
  /** The server that this server replaces. Its listening socket takes the place of an address to listen on. */
  readonly takeover?: Pick<Takeover, 'port' | 'listener'>
  /** For tests: undeclared fields in answers are errors. */
  readonly strictResponses?: boolean
  /** For tests: runtimes besides the configured runtimes. */
  readonly moreRuntimes?: readonly Runtime[]
  /** For tests: builds and runs new releases in place of the process runtime. */
  readonly preferredRuntime?: Runtime
  /** For tests: replaces the detected capabilities of the host. */
  readonly host?: HostCapabilities
  /** For tests: plans builds in this process. */
  readonly buildPlans?: PlanApart
}

export interface FairleadServer {
  /** The listening address, such as `http://127.0.0.1:3000`. */
  readonly url: string
  readonly listener: Server
  /**
   * Gives up the leadership, stops accepting, and finishes accepted requests, after another server has replaced this
   * server. Call `stop` afterwards.
   */
  retire(deadlineMs: number): Promise<void>
  /**
   * Stops in order: accepts no new work, ends running requests and jobs, and closes the database. With `all` also ends
   * apps, gateway and databases; with `server` they stay for the next server.
   */
  stop(scope: StopScope): Promise<void>
}

/**
 * Starts a server. It answers `/healthz` and `/readyz` at once; the promise resolves when the API is ready, and this
 * server leads with its apps reconciled, or another server leads. A server may lead, follow, and lead again. Rejects
 * when it cannot start; nothing is left running then.
 */
export async function startServer(options: ServerOptions): Promise<FairleadServer> {
  const { config, logger } = options
  const stack = createShutdownStack(logger, options.signal)
  let presence: Presence | undefined
  let isReady = false
  // Apps go on when another server takes over.
  let scope: StopScope = 'server'
  let stopping: Promise<void> | undefined
  const stopNow = async (asked: StopScope) => {
    scope = (await presence?.leave(asked)) ?? asked
    await stack.unwind(scope)
  }
  const stop = (asked: StopScope) => {
    stopping ??= stopNow(asked)
    return stopping
  }
  try {
    const metrics = await openMetrics(config.metricsToken, logger)
    const application = createApplication({
      logger,
      metrics,
      pages: await dashboardFiles(dashboardDirectory),
      isTrustedProxy: addressesIn(config.trustedProxies),
      mostConnections: mostConnections(),
    })
    const retirement = createRetirement(application.server, application.edge)
    const finish = (scope: StopScope) =>
      retirement.finish({
        requestsMs: finishTimeoutMs,
        transfersMs: scope === 'server' ? finishTransfersMs : finishTimeoutMs,
      })
    const { url, begin } = await listen(application.server, config, options.takeover)
    stack.defer('http', finish)
    logLocalMode(config, logger)

    const warning = await foreignOwner(config.dataDirectory)
    if (warning !== null) logger.warn(warning)
    const directory = await openDataDirectory(config.dataDirectory, clusterUser(config))
    // Release the reserve first: the next record also needs space.
    await releaseBallast(directory.root, logger)
    const id = randomUUID()
    const runConnections = createRunConnections({
      findLeader: () => findLeader(directory.run),
      stopping: AbortSignal.any([stack.signal, retirement.signal]),
      logger,
    })
    presence = await openPresence({
      id,
      directory,
      logger,
      onStop: options.onStopRequest ?? ((scope) => void stop(scope)),
      onHandover: options.onHandoverRequest,
      onUpgrade: runConnections.fromServer,
    })
    stack.defer('control socket', presence.close)
    presence.update({ url })
    // A failed start must not end what another server still uses.
    stack.defer('leftovers', async (scope) => {
      if (scope === 'all' && isReady) await endLeftovers({ directory, logger })
    })
    const state = await openState({ config, logger, supervise: true, signal: stack.signal })
    stack.defer('database', (scope) => state.close({ keep: scope === 'server' }))
    const server = await register({ ...options, state, stack }, { id, url })
    // A newer version may have migrated the database before it saw this server.
    await assertUsableSchema(state.db, migrations)
    await prepareJobs(state.pool, logger)
    const secrets = await openSecretBox({
      database: state.db,
      given: config.secretKey,
      file: state.directory.secretKeyFile,
    })
    const features = await createFeatures(options, {
      state,
      secrets,
      application,
      metrics,
      stack,
      retiring: retirement.signal,
      runConnections,
      publicOrigin: publicOrigin(config, Number(new URL(url).port || 80)),
    })
    const member = await contend({
      state,
      stack,
      logger,
      server,
      scope: () => scope,
      onLeading: (leading) => presence?.update({ leading }),
      lead: (leadership) =>
        lead(
          options,
          {
            directory: state.directory,
            connection: state.connection,
            features,
            listenForEdge: application.edge.listen,
          },
          leadership,
        ),
    })
    application.setReadiness(readiness(state, member, options))
    if (metrics !== null) {
      registerRole(metrics, member)
      registerLostLines(metrics, options.lostLogLines)
    }
    // First at a stop, so that requests finish while their dependencies still run.
    stack.defer('http', finish)
    await begin()
    presence.update({ state: 'ready' })
    isReady = true
    logger.info({ url, leader: member.isLeader() }, 'ready')
    const retire = async (deadlineMs: number) => {
      await presence?.leave('server')
      await Promise.all([member.resign(), retirement.retire(deadlineMs)])
    }
    return { url, listener: application.server, retire, stop }
  } catch (error) {
    await stop(scopeOf(options.signal, config.onStop))
    throw error
  }
}

/** The number of uploads that end at the same time. Node has four file threads; one stays free for other requests. */
const finishedAtOnce = 3

interface RequestParts {
  readonly state: Omit<State, 'close'>
  readonly secrets: SecretBox
  readonly application: Application
  /** `null` without a metrics token. */
  readonly metrics: Metrics | null
  readonly stack: ShutdownStack
  /** Aborts when another server has replaced this one, which ends endless answers. */
  readonly retiring: AbortSignal
  readonly runConnections: RunConnections
  readonly publicOrigin: string
}

/**
 * Creates the features, passes functions between them, and mounts the API. Needs no leader in this process: requests
 * use rows, jobs and notifications.
 */
async function createFeatures(options: ServerOptions, parts: RequestParts) {
  const { config, logger } = options
  const { state, secrets, application, metrics, stack, publicOrigin } = parts
  const { directory } = state
  const database = state.db
  // Accounts take turns at both, so that no account waits for all work of another.
  const transact = createRequestTransactions(database)
  const finishing = createSlots<string>(finishedAtOnce)
  const tenancy = createTenancy({ database })
  const apps = createApps({
    database,
    config,
    logger,
    releasesSince: createReleaseReads({ database }).servedSince,
  })
  const engine = await createDatabaseEngine({
    config,
    directory,
    stack,
    logger,
    metrics,
    addProblems: application.addProblems,
  })
  const logs = createLogStore({ directory: directory.logs })
  // In the leader's process, requests see the state of the edge.
  let edgeProblems: readonly string[] = []
  application.addProblems(() => edgeProblems)
  const outbound = createOutbound(config.outbound)
  const accounts = await createAccounts({
    database,
    plans: config.plans,
    publicOrigin,
    workflowKeyLifeMs: config.workflowKeyLifeMs,
    auditRetentionDays: config.auditRetentionDays,
    outbound,
    metrics,
    logger,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
  })
  const { totals, tierOf } = accounts
  const webhooks = createWebhooks({
    database,
    secrets,
    outbound,
    plans: config.plans,
    retentionMs: config.webhooks.retentionMs,
    logger,
    tierOf,
    totals,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
  })
  const storage = await createStorage({
    database,
    secrets,
    directory,
    publicOrigin,
    plans: config.plans,
    reserveBytes: config.deploys.reserveBytes,
    idleTimeoutMs: config.uploadIdleTimeoutMs,
    stack,
    logger,
    transact,
    finishing,
    totals,
    projectsOf: tenancy.projectsOf,
    holdProject: tenancy.hold,
    announce: webhooks.announce,
  })
  const certificates = createCertificates({
    database,
    config,
    secrets,
    stack,
    logger,
    metrics,
    addProblems: application.addProblems,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
    announce: webhooks.announce,
  })
  const domains = createDomains({
    database,
    config,
    logger,
    totals,
    apps: apps.store,
    urlOf: apps.urlOf,
    projectsOf: tenancy.projectsOf,
    certificateRules: certificates.rules,
    certificatesOf: certificates.ofDomains,
  })
  const deployments = createDeployments({
    database,
    config,
    directory,
    secrets,
    logger,
    logs,
    stopping: AbortSignal.any([stack.signal, parts.retiring]),
    transact,
    finishing,
    totals,
    operatorId: accounts.operatorId,
    runtimes: runtimeNames({
      docker: config.docker,
      moreRuntimes: options.moreRuntimes,
      preferredRuntime: options.preferredRuntime,
    }),
    apps: apps.store,
    urlOf: apps.urlOf,
    latestUsage: apps.latestUsage,
    findProject: tenancy.find,
    holdProject: tenancy.hold,
    domainsOf: domains.namesOf,
    readDatabases: createLinkedDatabases(secrets),
    announce: webhooks.announce,
  })
  const databases = createDatabases({
    database,
    secrets,
    plans: config.plans,
    retentionMs: config.databases.retentionMs,
    logger,
    engine,
    tierOf,
    projectsOf: tenancy.projectsOf,
    linkApp: deployments.linkDatabase,
    announce: webhooks.announce,
  })
  const runs = createRuns({
    database,
    logger,
    connections: parts.runConnections,
    totals,
    assertApp: apps.assertApp,
    holdApp: apps.store.hold,
    announce: webhooks.announce,
  })
  const projects = createProjects({
    database,
    regions: config.regions,
    defaultRegion: config.defaultRegion,
    plans: config.plans,
    tierOf,
    totals,
    countDeployments: deployments.count,
    countDatabases: databases.count,
    storedBytes: storage.storedBytes,
    trafficOf: apps.trafficOf,
    onDelete: domains.removeProject,
  })
  const overview = createOverview({
    database,
    plans: config.plans,
    regions: config.regions,
    defaultRegion: config.defaultRegion,
    tierOf,
    totals,
    projectsOf: tenancy.projectsOf,
    projectNamesOf: tenancy.namesOf,
    appsOfProjects: apps.store.ofProjects,
    databasesOfProjects: databases.ofProjects,
    countApps: deployments.countApps,
    countDatabases: databases.count,
    storedBytes: storage.storedBytes,
    countBuilding: deployments.countBuilding,
    countRuns: runs.countUnfinished,
    countSchedules: runs.countSchedules,
    countDomains: (on, accountId) => domains.count(on, { account_id: accountId }),
  })
  application.mount({
    database,
    transact,
    secrets,
    keys: accounts.keys,
    audit: accounts.audit,
    dashboard: accounts.dashboard,
    deviceLogin: accounts.deviceLogin,
    tokens: accounts.tokens,
    findProject: (principal, id) => tenancy.find(principal.accountId, id),
    holdProject: tenancy.hold,
    connectRun: runs.connect,
    downloads: storage.downloads,
    authority: databases.authority,
    assertWritable: () => assertWritable(directory.root, config.deploys.reserveBytes),
    strict: options.strictResponses ?? false,
    handlers: {
      ...projects.handlers,
      ...deployments.handlers,
      ...apps.handlers,
      ...runs.handlers,
      ...domains.handlers,
      ...certificates.handlers,
      ...databases.handlers,
      ...storage.handlers,
      ...webhooks.handlers,
      ...accounts.handlers,
      ...overview.handlers,
    },
  })
  if (metrics !== null) registerGauges(metrics, state.pool, () => countByStatus(database))
  return {
    apps,
    logs,
    setEdgeProblems: (problems: readonly string[]) => {
      edgeProblems = problems
    },
    accounts,
    projects,
    databases,
    storage,
    webhooks,
    deployments,
    runs,
    certificates,
    domains,
  }
}

type Features = Awaited<ReturnType<typeof createFeatures>>

interface LeadParts {
  readonly directory: DataDirectory
  /** The connection settings of the state, for connections outside the pool. */
  readonly connection: State['connection']
  readonly features: Features
  readonly listenForEdge: EdgeListener['listen']
}

/**
 * Starts the work of the one leading server: gateway, apps, jobs, database checks, webhooks, housekeeping. Resolves
 * when apps are being started or adopted. Rejects when a part cannot start; nothing is left running then.
 *
 * @param leadership its database refuses writes once another server leads; its signal then ends a start and all jobs
 */
async function lead(options: ServerOptions, parts: LeadParts, leadership: FencedLeadership): Promise<Leading> {
  const stack = createShutdownStack(options.logger, leadership.signal)
  try {
    return { ...(await startLeading(options, parts, { ...leadership, stack })), stop: stack.unwind }
  } catch (error) {
    await stack.unwind('server')
    throw error
  }
}

async function startLeading(
  options: ServerOptions,
  { directory, connection, features, listenForEdge }: LeadParts,
  leadership: FencedLeadership & { readonly stack: ShutdownStack },
): Promise<Omit<Leading, 'stop'>> {
  const { config, logger } = options
  const { epoch, fence, stack } = leadership
  const { db: database, pool } = leadership.state
  const outbound = createOutbound(config.outbound)
  const tenancy = createTenancy({ database })
  const apps = features.apps.lead({ database, stack })
  const accounts = features.accounts.lead({ database })
  const databases = features.databases.lead({ database, stack, accountOf: tenancy.accountOf })
  await apps.move()
  stack.defer('the recording of logs', async () => features.logs.release())
  const { gateway, runAs } = await startGateway({
    config,
    directory,
    stack,
    logger,
    epoch,
    countTraffic: apps.countTraffic,
  })
  const caches = createCaches({
    mostEachBytes: config.deploys.mostEachCacheBytes,
    mostAllBytes: config.deploys.mostAllCachesBytes,
    list: async () => [...(await repositoryCacheFolders(directory.git)), ...(await runtimeCacheFolders(directory))],
    isKept: (path) => isKeptCache(directory, path),
  })
  const { runtimes, tools, publish } = await startRuntimes({
    config,
    directory,
    stack,
    logger,
    caches,
    fence,
    siteReader: runAs?.user ?? null,
    leavesCore: apps.isDemandHigh,
    moreRuntimes: options.moreRuntimes,
    preferredRuntime: options.preferredRuntime,
    host: options.host,
  })
  const sources = await openSources({
    directory: directory.git,
    confined: tools,
    environment: config.deploys.environment,
    sshAgent: config.sshAgent,
    mostSourceBytes: config.deploys.mostSourceBytes,
    caches,
    outbound,
  })
  const deployments = features.deployments.lead({
    database,
    connection,
    stack,
    apps: apps.store,
    listening: apps.listen(gateway, publish),
    noteRestart: apps.noteRestart,
    gateway,
    listenerOf: (address) => listenerOf(config, address),
    runtimes,
    sources,
    caches,
    buildPlans: options.buildPlans ?? createPlanApart(),
    outbound,
    planOf: tenancy.planOf,
    plansOfAll: tenancy.plans,
    applySchedules: features.runs.applyFile,
  })

  const sockets = edgeSockets(directory.root)
  await leadEdge({
    config,
    directory,
    stack,
    logger,
    listen: listenForEdge,
    gateway: { apps: sockets.edge, questions: sockets.questions },
    runAs,
    fence,
    onProblems: features.setEdgeProblems,
  })
  const domains = await features.domains.lead({
    database,
    connection,
    stack,
    gateway,
    apps: apps.store,
    operatorId: features.accounts.operatorId,
  })
  const certificates = await features.certificates.lead({
    database,
    connection,
    stack,
    gateway,
    operatorId: features.accounts.operatorId,
    accountOf: tenancy.accountOf,
    accountsOf: tenancy.accountsOf,
    servedDomains: features.domains.served,
    domainsChannel: features.domains.channel,
    hostnamesOf: apps.hostnamesOf,
    findAppAt: apps.findAt,
  })
  await databases.start()
  await closeForgottenApps(gateway, apps.store)
  const hasTriedAllApps = await deployments.start()
  apps.startMeasuring(deployments.measureInstances)
  const storage = features.storage.lead({ database })
  const projects = features.projects.lead({
    database,
    removers: [deployments.removeProject, databases.removeProject, storage.removeProject],
  })
  const workers = await startJobs({
    pool,
    stack,
    logger,
    deployTasks: deployments.deployTasks,
    startTasks: deployments.startTasks,
    databaseTasks: databases.tasks,
    loginTasks: databases.startRotations(deployments.linkedApps),
    projectTasks: projects.tasks,
  })
  const runs = await features.runs.lead({
    database,
    stack,
    findTarget: deployments.findCommandTarget,
    findValid: (ids) => features.accounts.validCredentials(database, ids),
  })
  const webhooks = features.webhooks.lead({ database, connection, stack })
  if (config.databaseUrl === undefined)
    keepBallast({ directory, reserveBytes: config.deploys.reserveBytes, stack, logger })
  followClock({ database, stack, logger, backMs: leadership.clockBackMs, deliveries: webhooks })
  startHousekeeping({ stack, logger }, [
    accounts.forget,
    apps.forgetTraffic,
    deployments.forgetSources,
    runs.forget,
    domains.forget,
    certificates.forget,
    () => forgetIdempotencyKeys(database),
    () => forgetAttempts(database),
  ])
  await accounts.logSetupLink()
  return { isWorking: workers.isRunning, hasTriedAllApps, gatewayProblem: gateway.problem }
}

interface StackAndLogger {
  readonly stack: ShutdownStack
  readonly logger: Logger
}

const hourMs = 3_600_000
const minuteMs = 60_000

/** Starts the job lanes with the concurrency from the connection budget. */
async function startJobs(
  given: StackAndLogger & {
    readonly pool: State['pool']
    readonly deployTasks: Readonly<Record<string, Task>>
    readonly startTasks: Readonly<Record<string, Task>>
    readonly databaseTasks: Readonly<Record<string, Task>>
    readonly loginTasks: Readonly<Record<string, Task>>
    readonly projectTasks: Readonly<Record<string, Task>>
  },
): Promise<Workers> {
  const { lanes } = connectionBudget.leader
  const { pool, stack, logger } = given
  await unlockDeadJobs(pool)
  const workers = await startWorkers({
    pool,
    logger,
    signal: stack.signal,
    lanes: [
      { concurrency: lanes.deploy.concurrency, tasks: given.deployTasks },
      { concurrency: lanes.start.concurrency, tasks: given.startTasks },
      { concurrency: lanes.databases.concurrency, tasks: given.databaseTasks },
      { concurrency: lanes.logins.concurrency, tasks: given.loginTasks },
      { concurrency: lanes.removal.concurrency, tasks: given.projectTasks },
    ],
  })
  stack.defer('jobs', () => workers.stop())
  return workers
}

/** Runs the chores, which delete expired data, every hour. */
function startHousekeeping({ stack, logger }: StackAndLogger, chores: readonly (() => Promise<void>)[]): void {
  const housekeeping = startPeriodic({
    name: 'housekeeping',
    everyMs: hourMs,
    work: async () => {
      for (const chore of chores) await chore()
    },
    logger,
  })
  stack.defer('housekeeping', () => housekeeping.stop())
}

/** Reserves disk space for the server's own PostgreSQL, and reserves it again after a release once there is space. */
function keepBallast({
  directory,
  reserveBytes,
  stack,
  logger,
}: StackAndLogger & { readonly directory: DataDirectory; readonly reserveBytes: number }): void {
  const ballast = startPeriodic({
    name: 'setting room aside for PostgreSQL',
    everyMs: minuteMs,
    work: () => restoreBallast(directory.root, reserveBytes),
    logger,
  })
  stack.defer('ballast', () => ballast.stop())
}

/**
 * Brings waiting jobs and deliveries forward when the clock is set back, so that their wait does not grow. Rate
 * windows, leases and leadership need no correction.
 *
 * @param given.backMs how far the clock was set back since another server led
 */
function followClock(
  given: StackAndLogger & {
    readonly database: Database
    readonly backMs: number
    readonly deliveries: Pick<WebhooksWork, 'bringForward' | 'wake'>
  },
): void {
  const { database, stack, logger, deliveries } = given
  const watch = watchClock(
    {
      async onBack(ms) {
        await database.transaction().execute(async (transaction) => {
          await bringJobsForward(transaction, ms)
          await deliveries.bringForward(transaction, ms)
        })
        logger.warn({ ms: Math.round(ms) }, 'the clock was set back; what waits for a later time was brought forward')
        deliveries.wake()
      },
      onError: (error) => logger.error({ err: error }, 'due times cannot be corrected yet'),
    },
    given.backMs,
  )
  stack.defer('clock', () => watch.stop())
}

/** Returns null without a token, because then metrics cannot be read, and their library only takes memory. */
async function openMetrics(token: string | undefined, logger: Logger): Promise<ProtectedMetrics | null> {
  if (token === undefined) return null
  const { createMetrics } = await import('./platform/metrics.ts')
  return { ...createMetrics({ logger }), token }
}

function logLocalMode(config: Config, logger: Logger): void {
  if (config.localMode) {
    logger.info('local mode: only this machine can reach the server, and file: repositories may be deployed')
  }
}
