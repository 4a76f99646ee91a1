/*
 * A WebSocket at `connectPath` connects a client to a command. The client offers two subprotocols, `runProtocol` and
 * the ticket of the run, so that no address contains the ticket. A binary message has a channel in its first byte, then
 * bytes of a stream; text messages are JSON.
 */

export const connectPath = '/runs/connect'
export const runProtocol = 'fairlead.run.v1'

/** The first byte of a binary message. A terminal has no separate channel for errors. */
export const channels = { input: 0, output: 1, errors: 2 } as const

export type RunRequest =
  | { readonly type: 'end' }
  | { readonly type: 'resize'; readonly columns: number; readonly rows: number }
  /** Stops output until `resume`, because a browser cannot read a WebSocket more slowly. */
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }

/** The server's last text message. Without a `problem`, the command has ended by itself. */
export interface RunEnd {
  readonly type: 'exit'
  readonly code: number | null
  readonly signal: string | null
  readonly problem: string | null
}

/** Returns `undefined` for a text that is not JSON or has no `type`. */
export function readMessage(text: string): { readonly type: string; readonly [name: string]: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof Object(value).type === 'string' ? (value as { type: string }) : undefined
  } catch {
    return undefined
  }
}
