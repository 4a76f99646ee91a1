import { EventSourceParserStream } from 'eventsource-parser/stream'
import { secretHeader } from '../session.ts'
import type { FromWorker, ToWorker } from './log-messages.ts'

/*
 * A shared worker that follows the logs of all tabs of this browser over one connection. Browsers open six connections
 * to a site over HTTP/1.1, so a connection for each log could leave none for other requests.
 */

interface Followed {
  readonly port: MessagePort
  readonly number: number
  readonly log: string
  /** The id of the last event that was passed on. */
  lastEventId: string
}

/** The server accepts no more in one stream. */
const mostLogs = 50
const displaced = {
  code: 'invalid_request',
  message:
    `This browser follows ${mostLogs} logs at once, and later ones took the place of this one. ` +
    'Close some of them and load this page again.',
  details: {},
}
/** Tabs that are opened or restored together share the next stream. */
const gatherMs = 20

const followed = new Set<Followed>()
let secret = ''
let stream = new AbortController()
let gathering: ReturnType<typeof setTimeout> | undefined

const scope = globalThis as unknown as { onconnect: (event: MessageEvent) => void }
scope.onconnect = ({ ports: [port] }) => {
  if (port === undefined) return
  port.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if (data.kind === 'leave') return forget((each) => each.port === port && each.number === data.number)
    const { number, log, lastEventId } = data
    secret = data.secret
    followed.add({ port, number, log, lastEventId })
    streamAgain()
  }
  // A crashed tab sends no more messages.
  port.addEventListener('close', () => forget((each) => each.port === port))
}

function forget(leaves: (each: Followed) => boolean): void {
  const gone = [...followed].filter(leaves)
  for (const each of gone) followed.delete(each)
  if (gone.length > 0) streamAgain()
}

/** Replaces the stream by a stream of the logs that are followed now, each from its last event. */
function streamAgain(): void {
  clearTimeout(gathering)
  gathering = setTimeout(() => {
    stream.abort()
    stream = new AbortController()
    const logs = [...followed]
    // If the tab asked again automatically, it would displace another log, again and again.
    for (const each of logs.splice(0, logs.length - mostLogs)) end(each, { error: displaced })
    if (logs.length > 0) void run(logs, stream.signal)
  }, gatherMs)
}

async function run(logs: readonly Followed[], signal: AbortSignal): Promise<void> {
  try {
    const names = logs.map(({ log, lastEventId }) => (lastEventId === '' ? log : `${log}/${lastEventId}`))
    const response = await fetch(`/dashboard/api/logs?follow=${names.join(',')}`, {
      headers: { [secretHeader]: secret },
      signal,
    })
    if (response.ok && response.body !== null) return await passOn(response.body, logs, signal)
    const { error } = (await response.json()) as { error: unknown }
    const requestId = response.headers.get('x-request-id') ?? undefined
    for (const each of logs) end(each, { error, requestId })
  } catch {
    // The connection was lost, or the stream was replaced.
  } finally {
    // The tabs ask again.
    if (!signal.aborted) for (const each of logs) end(each, {})
  }
}

async function passOn(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  logs: readonly Followed[],
  signal: AbortSignal,
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done || signal.aborted) return
    const { index, events, error } = JSON.parse(value.data) as { index: number; events?: string; error?: unknown }
    const each = logs[index]
    if (each === undefined || !followed.has(each)) continue
    if (events === undefined) {
      end(each, { error })
      continue
    }
    each.lastEventId =
      events
        .match(/^id: .*$/gm)
        ?.at(-1)
        ?.slice('id: '.length) ?? each.lastEventId
    post(each, { events })
  }
}

/** Tells the tab that a log has ended. */
function end(each: Followed, message: Omit<FromWorker, 'number'>): void {
  if (followed.delete(each)) post(each, message)
}

function post({ port, number }: Followed, message: Omit<FromWorker, 'number'>): void {
  port.postMessage({ number, ...message } satisfies FromWorker)
}
