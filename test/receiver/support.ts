import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import { parseSecret, type ReceiverErrorCode, sign } from '../../receiver/src/index.ts'

// Koa 2 is installed under another name and has no types of its own; its `use` and `callback` are those of Koa 3.
const Koa2 = createRequire(import.meta.url)('koa2') as typeof Koa

export const koaVersions = [
  ['Koa 2', Koa2],
  ['Koa 3', Koa],
] as const

export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
export const OTHER_SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'
export const PATH = '/webhooks/fairlead'
export const MAX_BODY = 1_048_576

/** The present of every test, in Unix seconds. */
export const NOW = 1_760_000_000
export const clock = () => NOW * 1000

export const deployed = {
  event: 'deployment.succeeded',
  timestamp: '2025-10-09T08:53:20.000Z',
  data: { deployment_id: 'dep_1', project_id: 'proj_1', url: 'https://app.example.com' },
} as const

export const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

/** The headers of a webhook with this body, signed as Fairlead does. */
export function signedHeaders(body: Uint8Array, { secret = SECRET, id = 'msg_1', timestamp = NOW } = {}) {
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': sign({ key: parseSecret(secret), id, timestamp, body }),
  }
}

/** The code of the ReceiverError that `act` throws; undefined when it returns. */
export function codeOf(act: () => unknown): ReceiverErrorCode | string | undefined {
  try {
    act()
    return undefined
  } catch (error) {
    return codeOfError(error)
  }
}

/** The code of the ReceiverError that the work rejects with; undefined when it is done. */
export const codeOfAsync = (work: Promise<unknown>): Promise<ReceiverErrorCode | string | undefined> =>
  work.then(() => undefined, codeOfError)

const codeOfError = (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : String(error))

export interface Reply {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** Serves a Koa app on a free port of loopback until it is disposed of. */
export async function serve(app: Koa) {
  const server = createServer(app.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  /** Sends a request in as many chunks as given; `method` POST and `path` the webhook's unless told otherwise. */
  const send = async (
    headers: OutgoingHttpHeaders,
    chunks: readonly Uint8Array[],
    { method = 'POST', path = PATH } = {},
  ): Promise<Reply> => {
    const req = request({ port, host: '127.0.0.1', method, path, headers, agent: false })
    const replied = once(req, 'response')
    for (const chunk of chunks) await new Promise((sent) => req.write(chunk, sent))
    req.end()
    const [res] = await replied
    let text = ''
    for await (const part of res.setEncoding('utf8')) text += part
    return { status: res.statusCode, headers: res.headers, text }
  }

  return {
    port,
    send,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

/** The outcome or the error code that a reply names. */
export function said(reply: Reply): string {
  const { outcome, error } = JSON.parse(reply.text)
  return outcome ?? error.code
}
