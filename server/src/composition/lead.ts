import { createPlanApart } from '../builds/planner.ts'
import { leadEdge } from '../edge/lead.ts'
import { edgeSockets } from '../gateway/gateway.ts'
import { listenerOf } from '../gateway/listener.ts'
import { closeForgottenApps, startGateway } from '../gateway/start.ts'
import { forgetIdempotencyKeys } from '../http/idempotency.ts'
import { forgetAttempts } from '../platform/attempts.ts'
import { createOutbound } from '../platform/outbound.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { createShutdownStack, type StopScope } from '../platform/shutdown.ts'
import { createTenancy } from '../projects/index.ts'
import type { Composition, SharedParts } from './composition.ts'
import { createCaches } from '../platform/disk/caches.ts'
import { isKeptCache, runtimeCacheFolders } from '../runtimes/caches.ts'
import { startRuntimes } from '../runtimes/start.ts'
import { openSources, repositoryCacheFolders } from '../sources/open.ts'
import { startJobs } from './jobs.ts'
import { leadClock } from './leading/clock.ts'
import { leadBallast } from './leading/disk.ts'

const hourMs = 3_600_000

/** The running work of the leader. */
export interface Leading {
  /** True while jobs are taken. */
  isWorking(): boolean
  /** True once the start of every app that should run has been tried. */
  hasTriedAllApps(): boolean
  /** Returns a sentence while the gateway does not answer; undefined while it answers. */
  gatewayProblem(): string | undefined
  /** Stops the work in reverse order; with `all`, also stops apps. The work can start again in the same process. */
  stop(scope: StopScope): Promise<void>
}

/** The parts that the leader's work needs from its process. */
export interface LeaderParts extends SharedParts {
  /** Higher than the epoch of every earlier leader. */
  readonly epoch: number
  /** How far the clock was set back since the last leader, in milliseconds. */
  readonly clockBackMs: number
  /** Throws when another server leads. */
  readonly fence: () => void
}

/**
 * Starts the work that one server does at a time: gateway, apps, jobs, database checks, webhooks, housekeeping.
 * Resolves when the desired apps are being started or adopted. Rejects when a part cannot start; then nothing is left
 * running.
 *
 * @param composition has the state of the leader: its writes are refused once another server leads
 * @param lost aborts when another server leads; ends a start and all running jobs
 */
export async function startLeading(
  composition: Omit<Composition, 'stack'>,
  parts: LeaderParts,
  lost: AbortSignal,
): Promise<Leading> {
  const stack = createShutdownStack(composition.logger, lost)
  try {
    const { workers, hasTriedAllApps, gatewayProblem } = await startParts({ ...composition, stack }, parts)
    return { isWorking: workers.isRunning, hasTriedAllApps, gatewayProblem, stop: stack.unwind }
  } catch (error) {
    await stack.unwind('server')
    throw error
  }
}

async function startParts(composition: Composition, parts: LeaderParts) {
  const { config, state, stack } = composition
  const database = state.db
  const outbound = createOutbound(config.outbound)
  const tenancy = createTenancy({ database })
  const apps = parts.apps.lead({ database, stack })
  const accounts = parts.accounts.lead({ database })
  const databases = parts.databases.lead({ database, stack, accountOf: tenancy.accountOf })
  await apps.move()
  stack.defer('the recording of logs', async () => parts.logs.release())
  const { gateway, runAs } = await startGateway({
    config,
    directory,
    stack,
    logger,
    epoch: parts.epoch,
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
    fence: parts.fence,
    siteReader: runAs?.user ?? null,
    leavesCore: apps.isDemandHigh,
    moreRuntimes: composition.moreRuntimes,
    preferredRuntime: composition.preferredRuntime,
    host: composition.host,
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
  const deployments = parts.deployments.lead({
    database,
    connection: state.connection,
    stack,
    apps: apps.store,
    listening: apps.listen(gateway, publish),
    noteRestart: apps.noteRestart,
    gateway,
    listenerOf: (address) => listenerOf(config, address),
    runtimes,
    sources,
    caches,
    buildPlans: composition.buildPlans ?? createPlanApart(),
    outbound,
    planOf: tenancy.planOf,
    plansOfAll: tenancy.plans,
    applySchedules: parts.runs.applyFile,
  })

  const sockets = edgeSockets(state.directory.root)
  await leadEdge({
    config,
    directory: state.directory,
    stack,
    logger: composition.logger,
    listen: parts.edge.listener.listen,
    gateway: { apps: sockets.edge, questions: sockets.questions },
    runAs: runAs,
    fence: parts.fence,
    onProblems: parts.edge.setProblems,
  })
  const domains = await parts.domains.lead({
    database,
    connection: state.connection,
    stack,
    gateway,
    apps: apps.store,
    operatorId: parts.accounts.operatorId,
  })
  const certificates = await parts.certificates.lead({
    database,
    connection: state.connection,
    stack,
    gateway,
    operatorId: parts.accounts.operatorId,
    accountOf: tenancy.accountOf,
    accountsOf: tenancy.accountsOf,
    servedDomains: parts.domains.served,
    domainsChannel: parts.domains.channel,
    hostnamesOf: apps.hostnamesOf,
    findAppAt: apps.findAt,
  })
  // Databases start before apps, because apps connect to their databases immediately.
  await databases.start()
  await closeForgottenApps(gateway, apps.store)
  const hasTriedAllApps = await deployments.start()
  apps.startMeasuring(deployments.measureInstances)
  const storage = parts.storage.lead({ database })
  const projects = parts.projects.lead({
    database,
    removers: [deployments.removeProject, databases.removeProject, storage.removeProject],
  })
  const workers = await startJobs(composition, {
    deployTasks: deployments.deployTasks,
    startTasks: deployments.startTasks,
    databaseTasks: databases.tasks,
    loginTasks: databases.startRotations(deployments.linkedApps),
    projectTasks: projects.tasks,
  })
  const runs = await parts.runs.lead({
    database,
    stack,
    findTarget: deployments.findCommandTarget,
    findValid: (ids) => parts.accounts.validCredentials(database, ids),
  })
  const webhooks = parts.webhooks.lead({ database, connection: state.connection, stack })
  leadBallast(composition)
  leadClock(composition, { backMs: parts.clockBackMs, deliveries: webhooks })
  startHousekeeping(composition, [
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
  return { workers, hasTriedAllApps, gatewayProblem: gateway.problem }
}

/** Runs the chores, which delete expired data, every hour. */
function startHousekeeping({ logger, stack }: Composition, chores: readonly (() => Promise<void>)[]): void {
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
