import { appCookies } from './cookies.ts'
import { connectionOptions, HOP_BY_HOP, isForwarded, type RawHeaders } from './raw-headers.ts'

export interface Peer {
  /** The address of the peer; null for the edge, which names the client instead. */
  readonly address: string | null
  /** True for a proxy whose X-Forwarded-* headers are trusted. */
  readonly trusted: boolean
  readonly scheme: 'http' | 'https'
}

export interface IncomingHead {
  readonly method: string
  readonly rawHeaders: RawHeaders
  /** The host of an absolute request target; null when the target has none. */
  readonly authority: string | null
  /** Replaces the Host header, which HTTP/1.0 may omit. */
  readonly defaultHost: string
  /** True when the client asks for another protocol (RFC 9110 §7.8). */
  readonly upgrade: boolean
  readonly peer: Peer
}

export interface RequestHead {
  readonly ok: true
  readonly headers: string[]
  readonly hasBody: boolean
}

export interface Refusal {
  readonly ok: false
  readonly status: 400 | 501
  readonly message: string
}

/** Node sends no body with these methods unless told to. For all others, a missing length must be stated. */
const USUALLY_BODILESS = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'])
const DIGITS = /^\d+$/
/** `uri-host [ ":" port ]` (RFC 9112 §3.2), without a comma, which some apps read as a separator of hosts. */
const HOST = /^(?:\[[\w:.%~-]+\]|[\w.~%!$&'()*+;=-]*)(?::\d*)?$/

const NO_SINGLE_LENGTH = refuse(400, 'The request has no single Content-Length.')
const UNKNOWN_CODING = refuse(501, 'The only transfer coding is chunked.')
const SEVERAL_HOSTS = refuse(400, 'The request has more than one Host.')
const INVALID_HOST = refuse(400, 'The request has a Host that is not valid.')
const TWO_LENGTHS = refuse(400, 'The request has two lengths.')

interface Reading {
  readonly headers: string[]
  host: string | null
  hosts: number
  contentLength: string | null
  chunked: boolean
  acceptsTrailers: boolean
  trailer: string
  upgrade: string | null
  readonly forwarded: { for: string; proto: string; host: string }
}

/**
 * Returns the head for the app: without hop-by-hop headers, with exactly one framing, and with X-Forwarded-For, -Proto
 * and -Host. These three are extended only if a trusted proxy or the edge sent them. The edge passes all other headers
 * on as the client sent them, so they are not trusted.
 */
export function requestHead(request: IncomingHead): RequestHead | Refusal {
  const { rawHeaders, peer } = request
  const options = connectionOptions(rawHeaders)
  const reading: Reading = {
    headers: [],
    host: request.authority,
    hosts: 0,
    contentLength: null,
    chunked: false,
    acceptsTrailers: false,
    trailer: '',
    upgrade: null,
    forwarded: { for: '', proto: '', host: '' },
  }
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const refusal = readHeader(reading, rawHeaders[i] as string, rawHeaders[i + 1] as string, options, peer)
    if (refusal !== null) return refusal
  }
  const { host, hosts, chunked, contentLength } = reading
  if (hosts > 1) return SEVERAL_HOSTS
  if (host !== null && !HOST.test(host)) return INVALID_HOST
  if (chunked && contentLength !== null) return TWO_LENGTHS
  addOwnHeaders(reading, request)
  return {
    ok: true,
    headers: reading.headers,
    hasBody: chunked || (contentLength !== null && Number(contentLength) > 0),
  }
}

/** Adds one header of the request to the reading. Returns null, or a refusal when the framing is not acceptable. */
function readHeader(
  reading: Reading,
  name: string,
  value: string,
  options: ReadonlySet<string> | null,
  peer: Peer,
): Refusal | null {
  const lower = name.toLowerCase()
  if (lower === 'host') {
    reading.hosts += 1
    reading.host ??= value
    reading.headers.push(name, reading.host)
  } else if (lower === 'content-length') {
    if (reading.contentLength !== null || !DIGITS.test(value)) return NO_SINGLE_LENGTH
    reading.contentLength = value
    reading.headers.push(name, value)
  } else if (HOP_BY_HOP.has(lower)) {
    return readHopByHop(reading, lower, value)
  } else if (options?.has(lower)) {
    // The Connection header limits it to this connection.
  } else if (lower === 'trailer') {
    reading.trailer = reading.trailer === '' ? value : `${reading.trailer}, ${value}`
  } else if (isForwarded(lower)) {
    if (peer.trusted && !lower.includes('_')) readForwarded(reading, lower, name, value, peer.address === null)
  } else if (lower === 'cookie') {
    const cookies = appCookies(value)
    if (cookies !== null) reading.headers.push(name, cookies)
  } else {
    reading.headers.push(name, value)
  }
  return null
}

function readHopByHop(reading: Reading, lower: string, value: string): Refusal | null {
  if (lower === 'transfer-encoding') {
    if (reading.chunked || value.toLowerCase() !== 'chunked') return UNKNOWN_CODING
    reading.chunked = true
  } else if (lower === 'te') reading.acceptsTrailers ||= /(?:^|,)\s*trailers\s*(?:,|$)/i.test(value)
  else if (lower === 'upgrade') reading.upgrade = reading.upgrade === null ? value : `${reading.upgrade}, ${value}`
  return null
}

function readForwarded(
  { headers, forwarded }: Reading,
  lower: string,
  name: string,
  value: string,
  isEdge: boolean,
): void {
  if (lower === 'x-forwarded-for') forwarded.for += `${value}, `
  else if (lower === 'x-forwarded-proto') forwarded.proto ||= value
  else if (lower === 'x-forwarded-host') forwarded.host ||= value
  else if (!isEdge) headers.push(name, value)
}

/** Adds the headers that the gateway sets: a missing Host, the framing, the client and the connection. */
function addOwnHeaders(reading: Reading, { method, defaultHost, upgrade, peer }: IncomingHead): void {
  const { headers, forwarded } = reading
  if (reading.hosts === 0) {
    reading.host ??= defaultHost
    headers.push('Host', reading.host)
  }
  if (reading.chunked) {
    headers.push('Transfer-Encoding', 'chunked')
    if (reading.trailer !== '') headers.push('Trailer', reading.trailer)
  } else if (reading.contentLength === null && !USUALLY_BODILESS.has(method)) {
    headers.push('Content-Length', '0')
  }
  const client = peer.address === null ? forwarded.for.slice(0, -2) : forwarded.for + peer.address
  if (client !== '') headers.push('X-Forwarded-For', client)
  headers.push('X-Forwarded-Proto', forwarded.proto || peer.scheme)
  headers.push('X-Forwarded-Host', forwarded.host || (reading.host ?? ''))
  if (upgrade && reading.upgrade !== null) headers.push('Connection', 'Upgrade', 'Upgrade', reading.upgrade)
  else if (reading.acceptsTrailers) headers.push('Connection', 'keep-alive, TE', 'TE', 'trailers')
  else headers.push('Connection', 'keep-alive')
}

export function hasOneHost(rawHeaders: RawHeaders): boolean {
  const hosts = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'host')
  return hosts.length === 1 && HOST.test(hosts[0] ?? '')
}

function refuse(status: Refusal['status'], message: string): Refusal {
  return { ok: false, status, message }
}
