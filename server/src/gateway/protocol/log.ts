/** A logger, as the gateway needs it. It is not pino's type: loading pino would cost the program a third of its memory. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
