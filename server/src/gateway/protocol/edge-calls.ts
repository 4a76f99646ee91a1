import { isIP } from 'node:net'
import type { AppNames, HostName } from './host-names.ts'

/** The options of a gateway behind an edge, which ends TLS. */
export interface EdgeOptions {
  /** The server's own host names. No app can have them. */
  readonly hosts: readonly string[]
  readonly httpsPort: number
}

/** `edge-client.ts` describes each call. */
export interface EdgeCalls {
  readonly name: { readonly parameters: AppNames; readonly result: null }
  readonly certify: {
    /** `pem` holds the private key, then the chain, which starts with the certificate of the name. */
    readonly parameters: { readonly name: string; readonly pem: string | null }
    readonly result: null
  }
  readonly answerAt: {
    readonly parameters: { readonly path: string; readonly body: string | null }
    readonly result: null
  }
}

export type EdgeCallName = keyof EdgeCalls

export type EdgeCall = {
  [Name in EdgeCallName]: { readonly name: Name; readonly parameters: EdgeCalls[Name]['parameters'] }
}[EdgeCallName]

/** Reports that a visitor needs the certificate of a served name or wildcard that has none. */
export interface Uncertified {
  readonly type: 'uncertified'
  readonly hostname: string
}

/**
 * The host names, certificates and answers of a gateway. Certificates and answers appear only by their names and paths,
 * because a gateway reveals no key.
 */
export interface EdgeState {
  readonly names: readonly AppNames[]
  readonly certificates: readonly string[]
  readonly answers: readonly string[]
}

const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const HOSTNAME = new RegExp(`^${label}(?:\\.${label})*$`)
/** The longest DNS name as text (RFC 1035, section 2.3.4). */
const longestName = 253
const ANSWER_PATH = /^\/\.well-known\/[\w.~!$&'()*+,;=:@%/-]{1,1000}$/
const longestAnswer = 64 * 1024
const longestPem = 1024 * 1024

/** True for a host name in lower case without the root's dot; false for addresses and wildcards. */
export function isHostname(name: unknown): name is string {
  return typeof name === 'string' && name.length <= longestName && HOSTNAME.test(name) && isIP(name) === 0
}

function isHostnameOrWildcard(name: unknown): name is string {
  return isHostname(typeof name === 'string' && name.startsWith('*.') ? name.slice(2) : name)
}

/** Throws `TypeError` for invalid parameters. */
export const assertEdgeCall: {
  readonly [Name in EdgeCallName]: (parameters: EdgeCalls[Name]['parameters']) => void
} = {
  name({ appId, names }) {
    if (typeof appId !== 'string' || !Array.isArray(names)) throw new TypeError('an app lacks its names')
    if (!names.every(isName)) throw new TypeError('a name of an app is not a host name')
  },
  certify({ name, pem }) {
    if (!isHostnameOrWildcard(name)) throw new TypeError('a certificate is for something else than a host name')
    if (pem !== null && !(isText(pem, longestPem) && pem.includes('-----BEGIN ')))
      throw new TypeError('a certificate is not in PEM form')
  },
  answerAt({ path, body }) {
    if (typeof path !== 'string' || !ANSWER_PATH.test(path))
      throw new TypeError('only a path below /.well-known/ has an answer')
    if (body !== null && !isText(body, longestAnswer)) throw new TypeError('an answer is a short text')
  },
}

function isName(name: HostName | null): boolean {
  if (typeof name !== 'object' || name === null) return false
  return isHostnameOrWildcard(name.hostname) && (name.redirectTo === null || isHostname(name.redirectTo))
}

function isText(text: unknown, longest: number): boolean {
  return typeof text === 'string' && text.length <= longest
}
