import { type Logger, pino } from 'pino'
import { openOutput } from './logging/output.ts'

export type { Logger } from 'pino'

// A server writes JSON as a rule, and does without the memory of the formatter.
const prettyFactory = process.stdout.isTTY || process.stderr.isTTY ? (await import('pino-pretty')).prettyFactory : null

/** The log of a program. */
export interface Log {
  readonly logger: Logger
  /** Returns how many lines were lost so far, because the reader of the log did not take them. */
  lost(): number
}

/**
 * Opens a log that writes one JSON line an entry, or human-readable lines when the destination is a terminal. A reader that
 * stops reading stops nothing but the log.
 *
 * @param options.copy is called with each line as well
 */
export function openLog(options: {
  readonly level: string
  readonly destination: 'stdout' | 'stderr'
  readonly copy?: ((line: string) => void) | undefined
}): Log {
  const stream = options.destination === 'stdout' ? process.stdout : process.stderr
  const settings = { level: options.level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` }
  const output = openOutput(stream)
  const show =
    prettyFactory !== null && stream.isTTY
      ? prettyFactory({ translateTime: 'SYS:HH:MM:ss', singleLine: true })
      : (line: string) => line
  const write = (line: string) => {
    output.write(show(line))
    options.copy?.(line.trimEnd())
  }
  return { logger: pino(settings, { write }), lost: output.lost }
}

/** Creates a logger as `openLog` does, for a command. */
export function createLogger(options: { readonly level: string; readonly destination: 'stdout' | 'stderr' }): Logger {
  return openLog(options).logger
}
