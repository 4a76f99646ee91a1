import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import { parseSecret, type ReceiverErrorCode, sign } from '../../../receiver/src/index.ts'

// Koa 2 is installed under another name without types; its `use` and `callback` have the types of Koa 3.
const Koa2 = createRequire(import.meta.url)('koa2') as typeof Koa

export const koaVersions = [
  ['Koa 2', Koa2],
  ['Koa 3', Koa],
] as const

export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
export const OTHER_SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'
export const PATH = '/webhooks/fairlead'
export const MAX_BODY = 1_048_576

/** The time of all tests' clocks, in Unix seconds. */
export const NOW = 1_760_000_000
export const clock = () => NOW * 1000

export const deployed = {
  event: 'deployment.succeeded',
  timestamp: '2025-10-09T08:53:20.000Z',
  data: { deployment_id: 'dep_1', project_id: 'proj_1', url: 'https://app.example.com' },
} as const

export const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

/** Returns the headers of a webhook with this body, signed as Fairlead signs it. */
export function signedHeaders(body: Uint8Array, { secret = SECRET, id = 'msg_1', timestamp = NOW } = {}) {
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': sign({ key: parseSecret(secret), id, timestamp, body }),
  }
}

/** Returns the code of the ReceiverError that `act` throws; undefined when it returns. */
export function codeOf(act: () => unknown): ReceiverErrorCode | string | undefined {
  try {
    act()
    return undefined
  } catch (error) {
    return codeOfError(error)
  }
}

/** Resolves to the code of the ReceiverError that the promise rejects with; undefined when it is fulfilled. */
export const codeOfAsync = (promise: Promise<unknown>): Promise<ReceiverErrorCode | string | undefined> =>
  promise.then(() => undefined, codeOfError)

const codeOfError = (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : String(error))

export interface Reply {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** Serves a Koa app on a free loopback port until it is disposed of. */
export async function serve(app: Koa) {
  const server = createServer(app.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  /** Sends a request with its body in these chunks. */
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

/** Returns the outcome or the error code of a reply. */
export function said(reply: Reply): string {
  const { outcome, error } = JSON.parse(reply.text)
  return outcome ?? error.code
}
