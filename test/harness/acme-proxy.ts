import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { createServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { issueCertificate, makeAuthority, makeKey } from '../../server/src/features/databases/postgres/certificates.ts'
import type { Pebble } from './pebble.ts'
import { temporaryDirectory } from './temporary.ts'

/** An answer that replaces the authority's answer. */
export interface AcmeAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
}

export interface AcmeRequest {
  readonly method: string
  /** A path such as `/order-plz`. */
  readonly path: string
  /** The payload of a signed request, if it has one. */
  readonly payload: unknown
}

/** An authority that answers as a test says, and otherwise passes requests to Pebble. */
export interface AcmeProxy extends AsyncDisposable {
  readonly directoryUrl: string
  readonly caFile: string
  /** Every request, in order. */
  readonly requests: readonly AcmeRequest[]
  /** Sets the answer to requests: `undefined` passes a request to Pebble, `null` breaks the connection. */
  answer(answerOf: (asked: AcmeRequest) => AcmeAnswer | undefined | null | Promise<AcmeAnswer | undefined>): void
}

/** Returns an authority's error response (RFC 8555, section 6.7). */
export const acmeProblem = (
  status: number,
  type: string,
  detail: string,
  headers: Readonly<Record<string, string>> = {},
): AcmeAnswer => ({
  status,
  headers: { 'content-type': 'application/problem+json', 'replay-nonce': 'none', ...headers },
  body: JSON.stringify({ type: `urn:ietf:params:acme:error:${type}`, detail, status }),
})

export async function startAcmeProxy(pebble: Pebble): Promise<AcmeProxy> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const authority = await makeAuthority(new Date())
  const key = await makeKey()
  const caFile = join(directory.path, 'ca.pem')
  await writeFile(caFile, authority.certificate)
  const ca = await readFile(pebble.caFile)
  const requests: AcmeRequest[] = []
  let answerOf: Parameters<AcmeProxy['answer']>[0] = () => undefined
  const cert = await issueCertificate(authority, key, ['127.0.0.1'], new Date())

  const server = createServer({ key, cert }, async (incoming, outgoing) => {
    const body = Buffer.concat(await incoming.toArray())
    const asked = { method: incoming.method ?? '', path: incoming.url ?? '', payload: payloadOf(body) }
    requests.push(asked)
    const own = await answerOf(asked)
    if (own === null) {
      incoming.socket.destroy()
      return
    }
    const { status, headers, text } = own === undefined ? await pass(incoming, body) : { ...own, text: own.body }
    outgoing.writeHead(status, headers).end(text)
  })

  async function pass(incoming: IncomingMessage, body: Buffer) {
    const { method, headers, url } = incoming
    // Keeps the host: signatures cover the requested address.
    const sent = request(new URL(url ?? '/', pebble.directoryUrl), { ca, method, headers, agent: false })
    sent.end(body)
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    const { 'transfer-encoding': _, ...rest } = answer.headers
    return { status: answer.statusCode ?? 502, headers: rest, text: Buffer.concat(await answer.toArray()) }
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanup.defer(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const owned = cleanup.move()
  return {
    directoryUrl: `https://127.0.0.1:${(server.address() as AddressInfo).port}/dir`,
    caFile,
    requests,
    answer(given) {
      answerOf = given
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function payloadOf(body: Buffer): unknown {
  try {
    const { payload } = JSON.parse(String(body)) as { payload: string }
    return payload === '' ? undefined : JSON.parse(Buffer.from(payload, 'base64url').toString())
  } catch {
    return undefined
  }
}
