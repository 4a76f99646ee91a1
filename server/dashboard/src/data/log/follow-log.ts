import { ApiError } from '@fairlead/server/client'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { isRateLimited, rateLimitWaitMs } from '../rate-limit.ts'
import { sleep } from '../sleep.ts'
import { type LogLine, parseLogLine } from './log-line.ts'

const reconnectAfterMs = 2_000
/** Lines are handled for at most this long before the browser may handle events and paint. */
const maxTurnMs = 8

export interface FollowOptions {
  /**
   * Requests the log as server-sent events, from the line after `lastEventId`; from its start when `lastEventId` is
   * empty.
   */
  readonly connect: (lastEventId: string) => Promise<Pick<Response, 'body'>>
  readonly signal: AbortSignal
  readonly onLine: (line: LogLine) => void
  /** Called for each lost connection. */
  readonly onError: (error: unknown) => void
}

/**
 * Follows a log and reconnects when the connection is lost. Resolves when the log has ended. Rejects when `signal`
 * aborts or when the server answers 4xx, because another request would get the same answer; after 429 it waits as the
 * server says.
 *
 * The browser's own EventSource reveals neither the status nor the body of an error response, so `fetch` is used.
 */
export async function followLog({ connect, signal, onLine, onError }: FollowOptions): Promise<void> {
  let lastEventId = ''
  for (;;) {
    let wait = reconnectAfterMs
    try {
      const { body } = await connect(lastEventId)
      if (body === null) return
      const outcome = await readEvents(body, (id, line) => {
        lastEventId = id ?? lastEventId
        onLine(line)
      })
      if (outcome === 'ended') return
    } catch (error) {
      signal.throwIfAborted()
      onError(error)
      wait = rateLimitWaitMs(error) ?? reconnectAfterMs
      if (error instanceof ApiError && error.status < 500 && !isRateLimited(error)) throw error
    }
    await sleep(wait)
    signal.throwIfAborted()
  }
}

/** Reads lines until the event `end`, or until the connection closes without it. */
async function readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  onLine: (id: string | undefined, line: LogLine) => void,
): Promise<'ended' | 'disconnected'> {
  const reader = body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader()
  let turnBegan = performance.now()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return 'disconnected'
      if (value.event === 'end') return 'ended'
      onLine(value.id, parseLogLine(value.data, value.id))
      if (performance.now() - turnBegan < maxTurnMs) continue
      await sleep(0)
      turnBegan = performance.now()
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
