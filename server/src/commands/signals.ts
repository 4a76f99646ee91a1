import { closeSync, openSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Logger } from '../platform/logger.ts'
import { StopRequest, type StopScope } from '../platform/startup/shutdown.ts'

/** A Ctrl+C may arrive twice at once: the terminal sends it to all of its processes, and npm passes it on. */
const sameSignalMs = 1_000

/**
 * Stops at the first SIGINT or SIGTERM, or when the terminal of the server is closed. Another such signal, at least
 * `sameSignalMs` later, ends the process at once. Any other SIGHUP asks for a handover.
 *
 * @param options.onStop what SIGTERM stops
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
  // Its output may go to a pipe or a file. With nohup, no stream is the terminal, and the server outlives it.
  const ownsTerminal = [0, 1, 2].some(isatty) && hasTerminal()
  process.on('SIGHUP', () => {
    // Nobody could press Ctrl+C any more.
    if (ownsTerminal && !hasTerminal()) stopFor('closed terminal', 'all')
    else if (!stop.signal.aborted) handOver()
  })
}

/** Tells whether a terminal controls this process, whose Ctrl+C reaches it. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}
