import { type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

export type { Logger } from 'pino'

/**
 * Creates a logger that writes one JSON line an entry, or human-readable lines when the destination is a terminal.
 *
 * @param options.copy is called with each line as well
 */
export function createLogger(options: {
  readonly level: string
  readonly destination: 'stdout' | 'stderr'
  readonly copy?: ((line: string) => void) | undefined
}): Logger {
  const stream = options.destination === 'stdout' ? process.stdout : process.stderr
  const settings = { level: options.level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` }
  const destination = stream.isTTY
    ? pretty({ translateTime: 'SYS:HH:MM:ss', singleLine: true, destination: stream.fd, sync: true })
    : pino.destination({ dest: stream.fd, sync: true })
  const { copy } = options
  if (copy === undefined) return pino(settings, destination)
  return pino(settings, {
    write(line: string) {
      destination.write(line)
      copy(line.trimEnd())
    },
  })
}
