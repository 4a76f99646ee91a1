import { z } from 'zod'

/*
 * A server starts its successor with an IPC channel and hands it the socket that it listens on. Both accept for a moment,
 * so no connection is refused in between.
 *
 *   successor                     server
 *   hello                  ─▶
 *                          ◀─     start (the address)
 *   log …                  ─▶
 *   prepared               ─▶
 *                          ◀─     listener (with the socket)
 *   ready                  ─▶     stops accepting, finishes, and ends
 *
 * `failed` may come at any time. The two may be of different versions, so messages are only ever added.
 */

/** The option of `fairlead serve` by which a server knows that it is a successor. */
export const successorOption = '--successor'

export const fromSuccessor = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), version: z.string() }),
  /** A line of the log of the start; the last ones are the reason when it fails without saying why. */
  z.object({ type: z.literal('log'), line: z.string() }),
  z.object({ type: z.literal('prepared') }),
  z.object({ type: z.literal('ready') }),
  z.object({ type: z.literal('failed'), reason: z.string() }),
])

export type FromSuccessor = Readonly<z.output<typeof fromSuccessor>>

export const toSuccessor = z.discriminatedUnion('type', [
  z.object({ type: z.literal('start'), host: z.string(), port: z.int() }),
  z.object({ type: z.literal('listener') }),
])

export type ToSuccessor = Readonly<z.output<typeof toSuccessor>>
