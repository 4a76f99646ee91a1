import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createAccounts } from './accounts/accounts.ts'
import { createKeys } from './accounts/keys.ts'
import { publicUrl } from './deployments/addresses.ts'
import { type App, createApps } from './deployments/apps.ts'
import { createBuildSlots } from './deployments/build-slots.ts'
import { workOn } from './deployments/deployer.ts'
import { createDeployments } from './deployments/deployments.ts'
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
import { createProcessRunner } from './deployments/runner/process-runner.ts'
import { preparePrograms } from './deployments/runner/programs.ts'
import { createDeploymentStore } from './deployments/store/store.ts'
import { createWork } from './deployments/work.ts'
import { createGateway } from './gateway/gateway.ts'
import { type Application, createApplication } from './http/application.ts'
import { createBackground } from './platform/background.ts'
import { type Config, releasePorts } from './platform/config.ts'
import { prepareJobs, startWorkers } from './platform/jobs.ts'
import { createKeyedLock } from './platform/keyed-lock.ts'
import type { Logger } from './platform/logger.ts'
import { blockList, createOutbound } from './platform/outbound.ts'
import { createReleaseStack, type ReleaseStack } from './platform/release-stack.ts'
import { openSecretBox } from './platform/secret-key.ts'
import type { SecretBox } from './platform/secrets.ts'
import { takeServerLock } from './platform/server-lock.ts'
import { isRoot, openState, type State } from './platform/state.ts'
import { projectHandlers } from './projects/handlers.ts'
import { createProjects } from './projects/projects.ts'
import { removeProject, removeProjectTask } from './projects/removal.ts'
import { createTenancy } from './projects/tenancy.ts'
import { deliver } from './webhooks/deliver.ts'
import { webhookHandlers } from './webhooks/handlers.ts'
import { announce, deliverTask } from './webhooks/outbox.ts'
import { createSender } from './webhooks/send.ts'
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
const deliveryConcurrency = 20
const removalConcurrency = 2
const finishTimeoutMs = 10_000

/**
 * Starts a whole server. It answers on `/healthz` and `/readyz` from the first moment; this resolves when the API is up.
 * Rejects with what is wrong (port, data directory, database, key), and leaves nothing running then.
 */
export async function startServer(options: ServerOptions): Promise<FairleadServer> {
  const { config, logger } = options
  const stack = createReleaseStack(logger, options.signal)
  try {
    const application = createApplication({ logger })
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
    await compose({ ...options, state, secrets, application, stack })
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
  readonly stack: ReleaseStack
}

/** Makes the features, hands each what it needs of the others, and starts the work. */
async function compose(composition: Composition): Promise<void> {
  const { config, logger, state, secrets, application, stack } = composition
  const database = state.db
  const outbound = createOutbound(config.outbound)
  const accounts = createAccounts({ database })
  await accounts.ensureOperator()
  const keys = createKeys({ database })
  const store = createDeploymentStore({ database })
  const tenancy = createTenancy({ database })
  const projects = createProjects({
    database,
    regions: config.regions,
    defaultRegion: config.defaultRegion,
    plans: config.plans,
    tierOf: async (accountId) => (await accounts.get(accountId))?.plan ?? 'free',
    countDeployments: store.count,
  })
  const webhooks = createWebhooks({
    database,
    secrets,
    outbound,
    ownsProject: async (principal, id) => (await tenancy.find(principal.accountId, id)) !== undefined,
  })
  const sender = createSender({ outbound })
  stack.defer('webhook connections', () => sender.close())

  const parts = await deployParts(composition, {
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
        concurrency: deliveryConcurrency,
        tasks: {
          [deliverTask]: (job, signal) =>
            deliver({ database, secrets, sender, logger }, String(job['delivery_id']), signal),
        },
      },
      {
        concurrency: removalConcurrency,
        tasks: { [removeProjectTask]: (job) => removeProject({ database, removers: [] }, String(job['project_id'])) },
      },
    ],
  })
  stack.defer('jobs', () => workers.stop())

  application.mount({
    database,
    authenticate: keys.authenticate,
    findProject: (principal, id) => tenancy.find(principal.accountId, id),
    strict: composition.strictResponses ?? false,
    handlers: {
      ...projectHandlers(projects),
      ...deploymentHandlers({ deployments, lifecycle, logs }),
      ...webhookHandlers(webhooks),
    },
  })
  application.setReadiness(async () => {
    await state.pool.query('select 1')
  })
}

async function deployParts(
  composition: Composition,
  given: Pick<DeployParts, 'store' | 'outbound' | 'announce'>,
): Promise<DeployParts> {
  const { config, logger, state, secrets, stack } = composition
  const { directory } = state
  const appUids = isRoot() ? config.uids : null
  const programs = await preparePrograms({
    runtime: directory.runtime,
    bin: directory.bin,
    user: appUids === null ? null : { uid: appUids.from + 1, gid: appUids.from + 1 },
  })
  const trustedProxies = blockList(config.trustedProxies)
  const gateway = createGateway({
    logger,
    host: config.host,
    apps:
      config.apps.mode === 'ports'
        ? { mode: 'ports' }
        : { mode: 'hostnames', port: config.apps.gatewayPort, scheme: config.apps.scheme },
    isTrustedProxy: (address) => trustedProxies.check(address, address.includes(':') ? 'ipv6' : 'ipv4'),
  })
  stack.defer('gateway', () => gateway.stop({ timeoutMs: finishTimeoutMs }))
  try {
    await gateway.listen()
  } catch (error) {
    throw listenError(error as NodeJS.ErrnoException, config.host, gatewayPort(config), 'FAIRLEAD_GATEWAY_PORT')
  }
  const background = createBackground({ logger })
  stack.defer('background work', () => background.settle(config.deploys.drainMs + finishTimeoutMs))

  return {
    ...given,
    database: state.db,
    apps: createApps({ database: state.db, gateway, config: config.apps }),
    releases: createReleases({ directory: directory.apps, logDirectory: directory.logs, uids: appUids, secrets }),
    runner: createProcessRunner({
      node: programs.node,
      bin: programs.bin,
      buildEnvironment: config.deploys.environment,
      ports: releasePorts,
      logger,
    }),
    gateway,
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
  if (!isRoot()) {
    logger.warn('builds and apps run as the user of the server and can read its files: deploy only code that you trust')
  }
}
