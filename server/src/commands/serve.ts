import { once } from 'node:events'
import { Command } from 'commander'
import { loadConfig } from '../platform/config.ts'
import { createLogger, type Logger } from '../platform/logger.ts'
import { dataDirOption, type StateFlags } from './shared.ts'

interface ServeFlags extends StateFlags {
  readonly host?: string
  readonly port?: string
}

/** A stop takes the drains and the graces of apps; past this something hangs, and the process ends all the same. */
const stopDeadlineMs = 60_000

/** `fairlead serve` */
export function serveCommand(): Command {
  return new Command('serve')
    .description('run the server')
    .option('--host <address>', 'the address to listen on (FAIRLEAD_HOST; 127.0.0.1)')
    .option('--port <port>', 'the port to listen on (FAIRLEAD_PORT; 3000)')
    .addOption(dataDirOption())
    .action(serve)
}

async function serve(flags: ServeFlags): Promise<void> {
  const config = loadConfig(flags)
  const logger = createLogger({ level: config.logLevel, destination: 'stdout' })
  const stop = new AbortController()
  const stopped = once(stop.signal, 'abort')
  stopOnSignals(stop, logger)
  // Loaded here alone: no other command should wait for a whole server.
  const { startServer } = await import('../server.ts')

  const server = await startServer({
    config,
    logger,
    signal: stop.signal,
    onFatal: (error) => {
      logger.fatal({ err: error }, 'the server cannot go on')
      process.exitCode = 1
      stop.abort(error)
    },
  })
  if (!stop.signal.aborted) await stopped
  setTimeout(() => {
    logger.fatal('the stop took too long; whatever is left is cleared away at the next start')
    process.exit(1)
  }, stopDeadlineMs).unref()
  await server.stop()
  logger.info('stopped')
}

/** A Ctrl+C may come twice at once: from the terminal to all of its processes, and passed on by npm. */
const sameSignalMs = 1_000

/** The first SIGINT or SIGTERM begins the stop; another one later ends the process at once. */
function stopOnSignals(stop: AbortController, logger: Logger): void {
  let begun = 0
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (!stop.signal.aborted) {
        begun = performance.now()
        logger.info(`${signal}: stopping`)
        stop.abort(new Error(`stopped by ${signal}`))
      } else if (performance.now() - begun > sameSignalMs) {
        logger.fatal(
          `${signal} again: ended before everything was stopped; the next start takes up or clears away the rest`,
        )
        process.exit(130)
      }
    })
  }
}
