/**
 * The logger of the gateway. The type is not pino's, because loading pino would take a third of the gateway's memory.
 */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
