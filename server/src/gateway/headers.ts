import { appCookies, setsFairleadCookie } from './cookies.ts'

/** Names and values in turn, as they stood on the wire: case, order and repetitions kept. */
export type RawHeaders = readonly string[]

/** Names the release that answered. Set by the gateway alone. */
export const DEPLOYMENT_HEADER = 'X-Fairlead-Deployment'

/** The connection on which a request came in. */
export interface Peer {
  readonly address: string
  /** A proxy of the operator's: what it says of the client is believed. */
  readonly trusted: boolean
  /** What the public speaks on this connection. */
  readonly scheme: 'http' | 'https'
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

/** Speak of one connection, not of the message (RFC 9110 §7.6.1). */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade'])
/** A Connection header cannot take these away: host and framing belong to the message. */
const NEVER_OPTIONS = new Set(['host', 'content-length'])
/** May not come after the body (RFC 9110 §6.5.1): framing, routing, and what the gateway sets itself. */
const NEVER_TRAILERS = new Set(['content-length', 'host', 'trailer', 'set-cookie', 'cookie', 'content-encoding'])
/** Belong to the answer itself. */
const NEVER_INTERIM = new Set(['set-cookie', 'trailer', 'x-fairlead-deployment'])
/** Node sends no body for these by itself; for all others a missing length must be stated. */
const USUALLY_BODILESS = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'])
const DIGITS = /^\d+$/
/** `uri-host [ ":" port ]` (RFC 9112 §3.2), without the comma: to some apps that makes two hosts. */
const HOST = /^(?:\[[\w:.%~-]+\]|[\w.~%!$&'()*+;=-]*)(?::\d*)?$/
/** What a reason phrase may hold (RFC 9112 §4). Node's parser lets everything through but line ends. */
const REASON_PHRASE = /^[\t\x20-\x7e\x80-\xff]*$/
/** Who the client is, in the words of the de-facto headers and of RFC 7239. */
const FORWARDED = /^(?:forwarded|x-real-ip|x-forwarded-.+)$/

/**
 * The head that goes to the app: hop-by-hop headers removed, exactly one framing, and X-Forwarded-For, -Proto and -Host
 * telling about the client. Those a client sends itself are believed, and appended to, only from a trusted proxy.
 */
export function requestHead(request: {
  readonly method: string
  readonly rawHeaders: RawHeaders
  /** The host that the request line names, if it does. */
  readonly authority: string | null
  /** Stands in for the Host header that HTTP/1.0 may omit. */
  readonly defaultHost: string
  /** The connection is to change its protocol (RFC 9110 §7.8). */
  readonly upgrade: boolean
  readonly peer: Peer
}): RequestHead | Refusal {
  const { method, rawHeaders, peer } = request
  const options = connectionOptions(rawHeaders)
  const headers: string[] = []
  let host = request.authority
  let hosts = 0
  let contentLength: string | null = null
  let chunked = false
  let trailersWelcome = false
  let trailer = ''
  let upgrade: string | null = null
  let forwardedFor = ''
  let forwardedProto = ''
  let forwardedHost = ''

  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    const value = rawHeaders[i + 1] as string
    const lower = name.toLowerCase()
    if (lower === 'host') {
      hosts += 1
      host ??= value
      headers.push(name, host)
    } else if (lower === 'content-length') {
      if (contentLength !== null || !DIGITS.test(value)) return refuse(400, 'The request has no single Content-Length.')
      contentLength = value
      headers.push(name, value)
    } else if (HOP_BY_HOP.has(lower)) {
      if (lower === 'transfer-encoding') {
        if (chunked || value.toLowerCase() !== 'chunked') return refuse(501, 'The only transfer coding is chunked.')
        chunked = true
      } else if (lower === 'te') trailersWelcome ||= /(?:^|,)\s*trailers\s*(?:,|$)/i.test(value)
      else if (lower === 'upgrade') upgrade = upgrade === null ? value : `${upgrade}, ${value}`
    } else if (options?.has(lower)) {
      // Meant for this connection.
    } else if (lower === 'trailer') {
      trailer = trailer === '' ? value : `${trailer}, ${value}`
    } else if (isForwarded(lower)) {
      if (!peer.trusted || lower.includes('_')) continue
      if (lower === 'x-forwarded-for') forwardedFor += `${value}, `
      else if (lower === 'x-forwarded-proto') forwardedProto ||= value
      else if (lower === 'x-forwarded-host') forwardedHost ||= value
      else headers.push(name, value)
    } else if (lower === 'cookie') {
      const cookies = appCookies(value)
      if (cookies !== null) headers.push(name, cookies)
    } else {
      headers.push(name, value)
    }
  }

  if (hosts > 1) return refuse(400, 'The request has more than one Host.')
  if (host !== null && !HOST.test(host)) return refuse(400, 'The request names a host that is none.')
  if (chunked && contentLength !== null) return refuse(400, 'The request has two lengths.')
  if (hosts === 0) {
    host ??= request.defaultHost
    headers.push('Host', host)
  }
  if (chunked) {
    headers.push('Transfer-Encoding', 'chunked')
    if (trailer !== '') headers.push('Trailer', trailer)
  } else if (contentLength === null && !USUALLY_BODILESS.has(method)) {
    headers.push('Content-Length', '0')
  }
  headers.push('X-Forwarded-For', forwardedFor + peer.address)
  headers.push('X-Forwarded-Proto', forwardedProto || peer.scheme)
  headers.push('X-Forwarded-Host', forwardedHost || (host ?? ''))
  if (request.upgrade && upgrade !== null) headers.push('Connection', 'Upgrade', 'Upgrade', upgrade)
  else if (trailersWelcome) headers.push('Connection', 'keep-alive, TE', 'TE', 'trailers')
  else headers.push('Connection', 'keep-alive')
  return { ok: true, headers, hasBody: chunked || (contentLength !== null && Number(contentLength) > 0) }
}

/**
 * The head that goes to the client: hop-by-hop headers removed, Fairlead's cookies and deployment header protected.
 * Null when the app applied a transfer coding other than chunked, which nobody asked it for. Framing other than
 * Content-Length is left to the server that sends it.
 */
export function responseHead(response: {
  readonly status: number
  readonly rawHeaders: RawHeaders
  /** The client can be given a chunked body, and with it trailers. */
  readonly trailersPossible: boolean
  readonly deploymentId: string
}): string[] | null {
  const { status, rawHeaders } = response
  const options = connectionOptions(rawHeaders)
  const headers: string[] = []
  let contentLength = false
  let trailer = ''

  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    const value = rawHeaders[i + 1] as string
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower)) {
      if (lower === 'transfer-encoding' && value.toLowerCase() !== 'chunked') return null
      continue
    }
    if (lower === 'content-length') {
      if (status === 204 || status < 200) continue
      contentLength = true
    } else if (options?.has(lower) || lower === 'x-fairlead-deployment') {
      continue
    } else if (lower === 'trailer') {
      trailer = trailer === '' ? value : `${trailer}, ${value}`
      continue
    } else if (lower === 'set-cookie' && setsFairleadCookie(value)) {
      continue
    }
    headers.push(name, value)
  }
  // Node refuses to announce trailers where there are no chunks.
  if (trailer !== '' && !contentLength && response.trailersPossible) headers.push('Trailer', trailer)
  headers.push(DEPLOYMENT_HEADER, response.deploymentId)
  return headers
}

/** The Content-Length in a head of `responseHead`, in which there is at most one; null without. */
export function contentLength(headers: RawHeaders): number | null {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === 14 && name.toLowerCase() === 'content-length') return Number(headers[i + 1])
  }
  return null
}

/** The app's reason phrase, or none where it could not be written again. */
export function reasonPhrase(phrase: string): string {
  return REASON_PHRASE.test(phrase) ? phrase : ''
}

/** The head of an interim answer (RFC 9110 §15.2) or of a switch of protocols, as bytes on the wire in latin1. */
export function rawHead(status: number, reason: string, rawHeaders: RawHeaders): string {
  let head = `HTTP/1.1 ${status} ${reasonPhrase(reason)}\r\n`
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`
  return `${head}\r\n`
}

/** What is passed on of the headers of an interim answer: it has no body, sets no cookies and comes from no release yet. */
export function interimHeaders(rawHeaders: RawHeaders): string[] {
  const options = connectionOptions(rawHeaders)
  return selectHeaders(
    rawHeaders,
    (name) => !HOP_BY_HOP.has(name) && !options?.has(name) && !NEVER_INTERIM.has(name) && !NEVER_OPTIONS.has(name),
  )
}

/** The fields that may follow a body, in pairs. */
export function trailerFields(rawTrailers: RawHeaders): [string, string][] {
  const allowed = selectHeaders(
    rawTrailers,
    (name) =>
      !HOP_BY_HOP.has(name) && !NEVER_TRAILERS.has(name) && !isForwarded(name) && name !== 'x-fairlead-deployment',
  )
  return Array.from({ length: allowed.length / 2 }, (_, i) => [allowed[2 * i] ?? '', allowed[2 * i + 1] ?? ''])
}

/** To an app behind CGI or WSGI, X_Forwarded_For is the same as X-Forwarded-For. Most names are told by their first letter. */
function isForwarded(name: string): boolean {
  return (name.startsWith('x') || name.startsWith('f')) && FORWARDED.test(name.replaceAll('_', '-'))
}

function selectHeaders(rawHeaders: RawHeaders, keep: (lowerCaseName: string) => boolean): string[] {
  const kept: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (keep(name.toLowerCase())) kept.push(name, rawHeaders[i + 1] as string)
  }
  return kept
}

/** The header names that Connection lists, or null where it lists none: the usual case. */
function connectionOptions(rawHeaders: RawHeaders): Set<string> | null {
  let options: Set<string> | null = null
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length !== 10 || name.toLowerCase() !== 'connection') continue
    const value = rawHeaders[i + 1] as string
    if (value === 'keep-alive') continue
    for (const token of value.toLowerCase().split(',')) {
      const option = token.trim()
      if (option === '' || option === 'close' || option === 'keep-alive' || NEVER_OPTIONS.has(option)) continue
      options ??= new Set()
      options.add(option)
    }
  }
  return options
}

function refuse(status: Refusal['status'], message: string): Refusal {
  return { ok: false, status, message }
}
export const deploymentHeader = 'x-fairlead-deployment'
