import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect as connectHttp2, constants } from 'node:http2'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { CaddyMissingError, findCaddy } from '../../server/src/edge/caddy.ts'
import {
  type Issued,
  issueCertificate,
  makeAuthority,
  makeKey,
} from '../../server/src/features/databases/postgres/certificates.ts'

/*
 * Visitors of names that a test's edge serves, and an authority that the visitors trust. All names lead to this
 * machine, independent of DNS.
 */

/** Returns why the edge cannot be tested here; null when it can. */
export async function noCaddy(): Promise<string | null> {
  try {
    await findCaddy(process.env['PATH'] ?? '')
    return null
  } catch (error) {
    if (error instanceof CaddyMissingError) return error.message
    throw error
  }
}

export interface TestAuthority {
  readonly ca: string
  /** Returns a private key and a certificate for these names, as one PEM text. */
  issue(...names: string[]): Promise<string>
}

let made: Promise<Issued> | undefined

/** Returns the authority of this process. */
export async function testAuthority(): Promise<TestAuthority> {
  made ??= makeAuthority(new Date())
  const authority = await made
  return {
    ca: authority.certificate,
    async issue(...names) {
      const key = await makeKey()
      return `${key}${await issueCertificate(authority, key, names, new Date())}\n`
    },
  }
}

export interface Visit {
  readonly host: string
  readonly port: number
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly protocol?: 'h1' | 'h2'
  /** The server name in the handshake, if it differs from the host. */
  readonly servername?: string
}

export interface Visited {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/** Visits an address by HTTPS on a new connection. Rejects a certificate from another authority. */
export async function visit(given: Visit): Promise<Visited> {
  return given.protocol === 'h2' ? visitByHttp2(given) : visitByHttp1(given)
}

async function visitByHttp1({ method = 'GET', path = '/', headers, body, ...to }: Visit): Promise<Visited> {
  const socket = await dial(to)
  const Host = to.port === 443 ? to.host : `${to.host}:${to.port}`
  const sent = request({ method, path, headers: { Host, ...headers }, createConnection: () => socket })
  sent.end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const text = String(Buffer.concat(await answer.toArray()))
  socket.destroy()
  return { status: answer.statusCode ?? 0, headers: answer.headers, text }
}

async function visitByHttp2({ method = 'GET', path = '/', headers, body, ...to }: Visit): Promise<Visited> {
  const socket = await dial(to, { ALPNProtocols: ['h2'] })
  const session = connectHttp2(`https://${to.host}:${to.port}`, { createConnection: () => socket })
  try {
    const { HTTP2_HEADER_METHOD: METHOD, HTTP2_HEADER_PATH: PATH } = constants
    const stream = session.request({ [METHOD]: method, [PATH]: path, ...headers })
    stream.end(body)
    const [answered] = (await once(stream, 'response')) as [Record<string, string>]
    const text = String(Buffer.concat(await stream.toArray()))
    return { status: Number(answered[constants.HTTP2_HEADER_STATUS]), headers: answered, text }
  } finally {
    session.destroy()
  }
}

/** Opens a connection to the edge of this machine, with the host's name in the handshake. */
export async function dial(
  { host, port, servername = host }: Pick<Visit, 'host' | 'port' | 'servername'>,
  options: ConnectionOptions = {},
): Promise<TLSSocket> {
  const { ca } = await testAuthority()
  const socket = connectTls({ host: '127.0.0.1', port, servername, ca, ...options })
  await once(socket, 'secureConnect')
  return socket
}
