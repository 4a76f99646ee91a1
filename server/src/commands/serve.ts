import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { isatty } from 'node:tty'
import { Command, Option } from 'commander'
import { sayAlive } from '../platform/alive.ts'
import { type Config, loadConfig } from '../platform/config.ts'
import { dataDirectoryAt } from '../platform/data-directory.ts'
import { handOver, receiveTakeover, type Successor, successorOption, type Takeover } from '../platform/handover.ts'
import { type Logger, openLog } from '../platform/logger.ts'
import { ownRoot, ownVersion } from '../platform/package-files.ts'
import { closeInheritedDescriptors } from '../platform/processes.ts'
import { connectServiceManager } from '../platform/service-manager/notify.ts'
import { finishTransfersMs, StopRequest, type StopScope, scopeOf } from '../platform/shutdown.ts'
import {
  currentLink,
  describeVersion,
  type InstalledVersion,
  programOf,
  versionAt,
} from '../platform/versions/versions.ts'
import type { FairleadServer } from '../server.ts'
import { dataDirOption, type StateFlags } from './shared.ts'

interface ServeFlags extends StateFlags {
  readonly host?: string
  readonly port?: string
  readonly successor?: true
}

/** Longer than the last upload, all drains and the grace periods of apps. A longer stop hangs, so the process exits. */
const stopDeadlineMs = finishTransfersMs + 60_000

export function serveCommand(): Command {
  return new Command('serve')
    .description('run the server')
    .option('--host <address>', 'the address to listen on (FAIRLEAD_HOST; 127.0.0.1)')
    .option('--port <port>', 'the port to listen on (FAIRLEAD_PORT; 3000)')
    .addOption(dataDirOption())
    .addOption(new Option(successorOption, 'take over from the server that started this one').hideHelp())
    .action(serveOrReport)
}

/** Serves. When the start fails, reports the reason to a server that waits for this process to take over. */
async function serveOrReport(flags: ServeFlags): Promise<void> {
  closeInheritedDescriptors()
  const takeover = flags.successor ? await receiveTakeover(ownVersion) : undefined
  try {
    await serve(flags, takeover)
  } catch (error) {
    await takeover?.failed(error)
    throw error
  }
}

async function serve({ successor: _, ...flags }: ServeFlags, takeover: Takeover | undefined): Promise<void> {
  const config = loadConfig(flags)
  const { logger, lost } = openLog({ level: config.logLevel, destination: 'stdout', copy: takeover?.log })
  endAtBug(logger)
  const serviceManager = connectServiceManager(config, logger)
  const stop = new AbortController()
  const stopped = once(stop.signal, 'abort')
  let handover: Handover | undefined
  const requestHandover = async () => {
    if (handover === undefined) throw new Error('The server is still starting.')
    return handover.request()
  }
  const onHangUp = () => {
    if (handover === undefined) logger.warn('SIGHUP: no handover, because the server is still starting')
    // The log already has the reason of a failure.
    else void handover.request().catch(() => undefined)
  }
  handleSignals({ stop, onStop: config.onStop, handOver: onHangUp, logger })
  await warnOfOtherVersion(config.dataDirectory, logger)
  await keepCompiled(config.dataDirectory)
  // Other commands should not load the server's modules.
  const { startServer } = await import('../server.ts')

  const start = () =>
    startServer({
      config,
      logger,
      lostLogLines: lost,
      signal: stop.signal,
      onStopRequest: (scope) => {
        logger.info({ scope }, 'a command asks the server to stop')
        stop.abort(new StopRequest(scope, 'stopped by a command'))
      },
      onHandoverRequest: requestHandover,
      ...(takeover === undefined ? {} : { takeover }),
      onFatal: (error) => {
        logger.fatal({ err: error }, 'the server cannot continue')
        process.exitCode = 1
        stop.abort(error)
      },
    })
  const server = await sayAlive({ what: 'starting', say: (line) => logger.info(line) }, start).catch(
    serviceManager.failed,
  )
  await serviceManager.ready(server.url)
  // Only now: the former server may end soon. A service manager that does not know the new main process by then
  // considers the service stopped.
  await takeover?.ready()
  handover = createHandover({
    server,
    config,
    logger,
    signal: stop.signal,
    report: {
      begun: serviceManager.notifier.reloading,
      failed: () => serviceManager.notifier.ready(`Ready on ${server.url}`),
      replaced: serviceManager.retire,
    },
    finished: () => stop.abort(new StopRequest('server', 'another server has taken over')),
  })
  if (!stop.signal.aborted) await stopped
  void serviceManager.stopping()
  await stopInTime(server, scopeOf(stop.signal, config.onStop), logger)
}

/**
 * Turns on the compile cache of Node, which saves a fifth of the time of later starts. Only the user of this server may
 * write to the folder, because Node runs the cached code. The first start does not use the cache, because the folder is
 * not checked yet.
 */
async function keepCompiled(dataDirectory: string): Promise<void> {
  if (!existsSync(dataDirectory)) return
  const { compiled } = dataDirectoryAt(dataDirectory)
  try {
    await mkdir(compiled, { recursive: true, mode: 0o700 })
    for (const version of await readdir(compiled))
      if (version !== ownVersion) await rm(join(compiled, version), { recursive: true, force: true })
    enableCompileCache(join(compiled, ownVersion))
  } catch {
    // The server reports the problem when it opens the folder, and starts without the cache if it can.
  }
}

async function stopInTime(server: FairleadServer, scope: StopScope, logger: Logger): Promise<void> {
  setTimeout(() => {
    logger.fatal('the stop took too long; the next start cleans up the rest')
    process.exit(1)
  }, stopDeadlineMs).unref()
  await server.stop(scope)
  logger.info('stopped')
}

/** Exits at an unhandled error. Node itself would wait for the reader of standard error before it exits. */
function endAtBug(logger: Logger): void {
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'unhandled error: exiting; the next start takes over the running apps')
    process.exit(1)
  })
}

/**
 * Warns when an update has chosen another version: a start from the first installation would silently go back to it.
 */
async function warnOfOtherVersion(dataDirectory: string, logger: Logger): Promise<void> {
  const link = currentLink(dataDirectory)
  const current = await versionAt(link)
  if (current === null || current.root === ownRoot) return
  logger.warn(
    { version: ownVersion, current: current.version },
    `this is version ${ownVersion}, and the data directory was updated to ${current.version}: start it with node ${programOf(link)} serve`,
  )
}

/** The terminal sends Ctrl+C to all its processes, and npm forwards it, so it may arrive twice. */
const sameSignalMs = 1_000

/**
 * Stops at the first SIGINT or SIGTERM, or when the server's terminal closes. A second signal, at least `sameSignalMs`
 * later, ends the process at once. Any other SIGHUP requests a handover.
 *
 * @param options.onStop the scope of the stop at SIGTERM
 */
export function handleSignals(options: {
  readonly stop: AbortController
  readonly onStop: StopScope
  readonly handOver: () => void
  readonly logger: Logger
}): void {
  const { stop, onStop, handOver, logger } = options
  let stoppedAt = 0
  const stopFor = (signal: string, scope: StopScope) => {
    if (!stop.signal.aborted) {
      stoppedAt = performance.now()
      stop.abort(new StopRequest(scope, `stopped by ${signal}`))
      logger.info({ scope }, `${signal}: stopping`)
    } else if (performance.now() - stoppedAt > sameSignalMs) {
      logger.fatal(
        `${signal} again: exiting before everything has stopped; the next start takes over or cleans up the rest`,
      )
      process.exit(130)
    }
  }
  process.on('SIGINT', () => stopFor('SIGINT', 'all'))
  process.on('SIGTERM', () => stopFor('SIGTERM', onStop))
  // Some streams may be pipes or files. With nohup, none is the terminal, and the server outlives it.
  const ownsTerminal = [0, 1, 2].some(isatty) && hasTerminal()
  process.on('SIGHUP', () => {
    // Without the terminal, Ctrl+C is no longer possible.
    if (ownsTerminal && !hasTerminal()) stopFor('closed terminal', 'all')
    else if (!stop.signal.aborted) handOver()
  })
}

/** True while a terminal controls this process, so that Ctrl+C reaches it. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

/** Replaces this server with a successor at the same address. */
export interface Handover {
  /**
   * Starts a successor of the installed version. Resolves when it answers; this server then finishes its requests and
   * ends. Rejects when the successor does not become ready; this server goes on. Calls during a handover share it.
   */
  request(): Promise<Successor>
}

export interface HandoverOptions {
  readonly server: Pick<FairleadServer, 'listener' | 'retire'>
  readonly config: Config
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly report?: {
    begun(): Promise<void>
    failed(error: unknown): Promise<void>
    /** From now on, the successor reports to the service manager. */
    replaced(): void
  }
  /** This server has finished its last request and can end. */
  readonly finished: () => void
}

export function createHandover({ server, config, logger, signal, report, finished }: HandoverOptions): Handover {
  let underway: Promise<Successor> | undefined
  const replace = async (): Promise<Successor> => {
    await report?.begun()
    try {
      const current = (await versionAt(currentLink(config.dataDirectory))) ?? { version: ownVersion, root: ownRoot }
      logger.info({ version: current.version }, 'handing over to a new server')
      await assertStarts(current, config.dataDirectory)
      const program = programFor(current)
      const deadlineMs = config.handover.readyMs
      return await handOver({ listener: server.listener, program, deadlineMs, logger, signal })
    } catch (error) {
      underway = undefined
      logger.error({ err: error }, 'the handover failed; this server continues')
      await report?.failed(error)
      throw error
    }
  }
  const replaceAndRetire = async (): Promise<Successor> => {
    const successor = await replace()
    report?.replaced()
    server
      .retire(config.handover.finishMs)
      .catch((error: unknown) => logger.error({ err: error }, 'not all requests were finished'))
      .finally(finished)
    return successor
  }
  return {
    request() {
      underway ??= replaceAndRetire()
      return underway
    },
  }
}

/** Runs the self-check first, because a version that cannot load its modules reports that only on standard error. */
async function assertStarts(version: InstalledVersion, dataDirectory: string): Promise<void> {
  if (version.root === ownRoot) return
  const { problems } = await describeVersion(version, dataDirectory)
  if (problems.length > 0) throw new Error(`Version ${version.version} cannot start here:\n${problems.join('\n')}`)
}

function programFor({ root }: InstalledVersion): [string, ...string[]] {
  const given = process.argv.slice(2).filter((arg) => arg !== successorOption)
  return [process.execPath, ...process.execArgv, programOf(root), ...given, successorOption]
}
