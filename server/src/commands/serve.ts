import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { Command, Option } from 'commander'
import { finishTransfersMs } from '../composition/composition.ts'
import { sayAlive } from '../platform/alive.ts'
import { loadConfig } from '../platform/config.ts'
import { successorOption } from '../platform/handover/protocol.ts'
import { receiveTakeover, type Takeover } from '../platform/handover/take-over.ts'
import { type Logger, openLog } from '../platform/logger.ts'
import { closeInheritedDescriptors } from '../platform/processes.ts'
import { connectServiceManager } from '../platform/service-manager/service-manager.ts'
import { dataDirectoryAt } from '../platform/startup/data-directory.ts'
import { StopRequest, type StopScope, scopeOf } from '../platform/startup/shutdown.ts'
import { currentLink, programOf, versionAt } from '../platform/versions/installed.ts'
import { ownRoot, ownVersion } from '../platform/versions/own-package.ts'
import type { FairleadServer } from '../server.ts'
import { createHandover, type Handover } from './handover.ts'
import { dataDirOption, type StateFlags } from './shared.ts'
import { handleSignals } from './signals.ts'

interface ServeFlags extends StateFlags {
  readonly host?: string
  readonly port?: string
  readonly successor?: true
}

/**
 * Longer than all drains and grace periods of apps, after the last upload. When a stop takes longer, something hangs and
 * the process exits.
 */
const stopDeadlineMs = finishTransfersMs + 60_000

/** `fairlead serve` */
export function serveCommand(): Command {
  return new Command('serve')
    .description('run the server')
    .option('--host <address>', 'the address to listen on (FAIRLEAD_HOST; 127.0.0.1)')
    .option('--port <port>', 'the port to listen on (FAIRLEAD_PORT; 3000)')
    .addOption(dataDirOption())
    .addOption(new Option(successorOption, 'take over from the server that started this one').hideHelp())
    .action(serveOrReport)
}

/** Serves; tells a server that waits for this one why it cannot start. */
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
    // The reason of a failure is in the log already.
    else void handover.request().catch(() => undefined)
  }
  handleSignals({ stop, onStop: config.onStop, handOver: onHangUp, logger })
  await warnOfOtherVersion(config.dataDirectory, logger)
  await keepCompiled(config.dataDirectory)
  // Imported here, so that no other command waits for all of the server's modules.
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
  // Only now: the former server ends as soon as it has nothing left to do, and a service manager that does not know its next
  // main process by then takes that for the end of the service.
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
 * Lets Node keep what it compiles from now on, which takes a fifth of the time of later starts. Only this server's user may write there:
 * Node runs what it finds. A first start keeps nothing, because the folder is not checked yet.
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
    // The server says it when it opens the folder, and starts without where it can.
  }
}

async function stopInTime(server: FairleadServer, scope: StopScope, logger: Logger): Promise<void> {
  setTimeout(() => {
    logger.fatal('the stop took too long; the next start cleans up what is left')
    process.exit(1)
  }, stopDeadlineMs).unref()
  await server.stop(scope)
  logger.info('stopped')
}

/** Node itself would wait for the reader of standard error before it ends the process. */
function endAtBug(logger: Logger): void {
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'an error that nothing handles: exiting; the next start takes over what runs')
    process.exit(1)
  })
}

/** An update points at another version; a start from where the first one was installed would go back to it unnoticed. */
async function warnOfOtherVersion(dataDirectory: string, logger: Logger): Promise<void> {
  const link = currentLink(dataDirectory)
  const current = await versionAt(link)
  if (current === null || current.root === ownRoot) return
  logger.warn(
    { version: ownVersion, current: current.version },
    `this is version ${ownVersion}, and the data directory was updated to ${current.version}: start it with node ${programOf(link)} serve`,
  )
}
