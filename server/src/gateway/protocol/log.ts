/** The logger of the gateway. The type is not pino's: loading pino would take a third of the program's memory. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
