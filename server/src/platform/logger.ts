import { type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

export type { Logger } from 'pino'

/** Creates a logger that writes one JSON line an entry, or human-readable lines when the destination is a terminal. */
export function createLogger(options: { level: string; destination: 'stdout' | 'stderr' }): Logger {
  const stream = options.destination === 'stdout' ? process.stdout : process.stderr
  const settings = { level: options.level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` }
  return stream.isTTY
    ? pino(settings, pretty({ translateTime: 'SYS:HH:MM:ss', singleLine: true, destination: stream.fd, sync: true }))
    : pino(settings, pino.destination({ dest: stream.fd, sync: true }))
}
