import type { z } from 'zod'
import type { Group, OperationName } from './routes.ts'

/** The input and output of an operation. `Route` has the rest. */
export interface Declaration {
  readonly summary: string
  readonly description: string
  /** Query parameters besides `limit` and `cursor`, which every list accepts. */
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  /** These fields may differ when a request is repeated, such as short-lived tokens. */
  readonly volatile?: readonly string[]
  /** Absent when the answer has no body, or is not JSON. */
  readonly response?: z.ZodType
}

export type Declarations<G extends Group> = {
  readonly [Name in Extract<OperationName, `${G}.${string}`>]: Declaration
}
