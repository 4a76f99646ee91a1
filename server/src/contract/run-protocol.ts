/*
 * The connection to a command of a run: a WebSocket at `connectPath` of the server. The client offers two subprotocols,
 * `runProtocol` and the ticket of the run, so that no address contains the ticket. Binary messages carry a channel in
 * their first byte and the bytes of a stream after it; text messages are JSON.
 */

export const connectPath = '/runs/connect'
export const runProtocol = 'fairlead.run.v1'

/** The first byte of a binary message. A terminal has no separate channel for errors. */
export const channels = { input: 0, output: 1, errors: 2 } as const

/** A text message of the client. */
export type RunRequest =
  | { readonly type: 'end' }
  | { readonly type: 'resize'; readonly columns: number; readonly rows: number }
  /** Stops output until `resume`, because a browser cannot read a WebSocket more slowly. */
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }

/** The last text message of the server. Without a `problem`, the command has ended by itself. */
export interface RunEnd {
  readonly type: 'exit'
  readonly code: number | null
  readonly signal: string | null
  readonly problem: string | null
}

/** Reads a text message; `undefined` when it is not JSON or has no `type`. */
export function readMessage(text: string): { readonly type: string; readonly [name: string]: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof Object(value).type === 'string' ? (value as { type: string }) : undefined
  } catch {
    return undefined
  }
}
