import { ApiError } from '@fairlead/server/client'
import { api } from '../client.ts'
import { sessionSecret } from '../session.ts'
import type { FromWorker, ToWorker } from './log-messages.ts'

type Events = ReadableStream<Uint8Array<ArrayBuffer>>

interface LogRequest {
  readonly projectId: string
  /** The deployment or the app. */
  readonly id: string
  /** The id of the last event that was received; empty for the log from its start. */
  readonly lastEventId: string
  readonly signal: AbortSignal
}

/**
 * Opens the server-sent events of a log: over the shared connection of all tabs if the browser has shared workers, else
 * over a separate connection.
 */
export async function openLog(request: LogRequest): Promise<{ body: Events | null }> {
  const worker = sharedWorker()
  return worker === undefined ? openAlone(request) : { body: openShared(worker, request) }
}

const maxLines = 100_000

function openAlone({ projectId, id, lastEventId, signal }: LogRequest): Promise<Response> {
  const request = {
    query: { tail: String(maxLines) },
    headers: { accept: 'text/event-stream', ...(lastEventId !== '' && { 'last-event-id': lastEventId }) },
    signal,
  }
  return id.startsWith('app_')
    ? api.logs.read({ params: { project_id: projectId, app_id: id }, ...request })
    : api.deployments.logs({ params: { project_id: projectId, id }, ...request })
}

const encoder = new TextEncoder()
const opened = new Map<number, ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>>()
let port: MessagePort | undefined
let canShare = 'SharedWorker' in globalThis
let numbers = 0

function sharedWorker(): MessagePort | undefined {
  if (!canShare) return undefined
  if (port !== undefined) return port
  const worker = new SharedWorker(new URL('./log-worker.ts', import.meta.url), { type: 'module', name: 'logs' })
  port = worker.port
  port.onmessage = ({ data }: MessageEvent<FromWorker>) => receive(data)
  // A worker that cannot be loaded, for example of an earlier version, accepts messages but never answers.
  worker.onerror = () => {
    canShare = false
    endAll()
  }
  // A page in the browser's back cache asks again when it is shown.
  addEventListener('pagehide', endAll)
  return port
}

function receive({ number, events, error, requestId }: FromWorker): void {
  const controller = opened.get(number)
  if (controller === undefined) return
  if (events !== undefined) {
    controller.enqueue(encoder.encode(events))
    return
  }
  opened.delete(number)
  controller.error(error === undefined ? new TypeError('the connection was lost') : apiError(error, requestId))
}

function apiError(error: unknown, requestId: string | undefined): ApiError {
  const { code, message, details } = Object(error) as Partial<ApiError>
  return new ApiError(code ?? 'server_error', message ?? 'The log cannot be read.', details ?? {}, requestId)
}

function openShared(worker: MessagePort, { projectId, id, lastEventId, signal }: LogRequest): Events {
  const number = ++numbers
  const send = (message: ToWorker) => worker.postMessage(message)
  const leave = () => {
    if (opened.delete(number)) send({ kind: 'leave', number })
  }
  return new ReadableStream({
    start(controller) {
      opened.set(number, controller)
      signal.addEventListener('abort', () => {
        if (opened.has(number)) controller.error(signal.reason)
        leave()
      })
      send({ kind: 'follow', number, log: `${projectId}/${id}`, lastEventId, secret: sessionSecret() })
    },
    cancel: leave,
  })
}

function endAll(): void {
  for (const [number, controller] of opened) {
    port?.postMessage({ kind: 'leave', number } satisfies ToWorker)
    controller.error(new TypeError('the connection was lost'))
  }
  opened.clear()
}
