import type { IncomingMessage } from 'node:http'
import { TooManyPieces } from '../platform/machine/http.ts'

export interface BodyWatch {
  /** The longest pause between bytes, in milliseconds. */
  readonly idleTimeoutMs: number
  /** Called with the number of bytes of each part that arrives. */
  readonly onBytes?: (count: number) => void
  /** Called when the body cannot become whole any more, with the problem in words. */
  readonly fail: (problem: string) => void
}

/**
 * Watches a body that is taken as it arrives: fails when it stalls, or when its connection is closed before its end. Returns
 * a function that stops watching.
 */
export function watchBody(message: IncomingMessage, { idleTimeoutMs, onBytes, fail }: BodyWatch): () => void {
  const idle = setTimeout(() => fail(`no bytes came for ${idleTimeoutMs / 1000} seconds`), idleTimeoutMs)
  const onData = (chunk: Buffer) => {
    idle.refresh()
    onBytes?.(chunk.length)
  }
  const onGone = () => {
    if (message.errored instanceof TooManyPieces) fail(message.errored.message)
    else if (!message.readableEnded) fail('the connection was closed before the upload was complete')
  }
  message.on('data', onData)
  // Stays registered: a connection may break at any time, and an error without a listener would end the process.
  message.on('error', onGone)
  message.on('close', onGone)
  if (message.destroyed) onGone()
  return () => {
    clearTimeout(idle)
    message.off('data', onData)
    message.off('close', onGone)
  }
}
