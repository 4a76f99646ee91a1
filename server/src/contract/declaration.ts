import type { z } from 'zod'
import type { Group, OperationName } from './routes.ts'

/** What an operation takes and gives. Joined with its route, this is all that the server and its clients know of it. */
export interface Declaration {
  readonly summary: string
  readonly description: string
  /** Query parameters besides `limit` and `cursor`, which every list takes. */
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  /** Fields of the body that may differ when a request is repeated: passwords of the moment. */
  readonly volatile?: readonly string[]
  /** Absent where the answer has no body (204), or one that is not JSON. */
  readonly response?: z.ZodType
}

/** The declarations of one group of operations, each of them present. */
export type Declarations<G extends Group> = {
  readonly [Name in Extract<OperationName, `${G}.${string}`>]: Declaration
}
