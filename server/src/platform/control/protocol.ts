import { z } from 'zod'

/** The `Host` of every request. A web page that reaches the socket in some way could not send it. */
export const controlHost = 'fairlead.control'

/** The most bytes of a request or an answer. */
export const mostBytes = 64 * 1024

/** The answer to `GET /status`. */
export const serverStatus = z.object({
  id: z.string(),
  version: z.string(),
  pid: z.int(),
  startedAt: z.string(),
  /** `null` until the server listens. */
  url: z.string().nullable(),
  state: z.enum(['starting', 'ready', 'stopping']),
  /** True for the server that does the background work. */
  leading: z.boolean(),
  dataDirectory: z.string(),
})

export type ServerStatus = Readonly<z.output<typeof serverStatus>>

/** The body of `POST /stop`. */
export const stopBody = z.object({ what: z.enum(['all', 'server']) })

/** A request that the server refuses, with the message for the caller. */
export class ControlError extends Error {
  override readonly name = 'ControlError'
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}
