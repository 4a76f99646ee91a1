import { namesDomain, setsFairleadCookie, withoutDomainAbove } from './cookies.ts'
import {
  connectionOptions,
  DEPLOYMENT_HEADER_ON_WIRE,
  deploymentHeader,
  HOP_BY_HOP,
  isForwarded,
  NEVER_OPTIONS,
  type RawHeaders,
  selectHeaders,
} from './raw-headers.ts'

/** Framing, routing, and headers of the gateway may not follow the body (RFC 9110 §6.5.1). */
const NEVER_TRAILERS = new Set(['content-length', 'host', 'trailer', 'set-cookie', 'cookie', 'content-encoding'])
/** These headers belong only to the final answer. */
const NEVER_INTERIM = new Set(['set-cookie', 'trailer', deploymentHeader])
/** The characters of a reason phrase (RFC 9112 §4). Node's parser accepts everything but line ends. */
const REASON_PHRASE = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Returns the head for the client: without hop-by-hop headers, with Fairlead's cookies and deployment header protected.
 * Null for a transfer coding other than chunked, which the gateway never asks for. The server adds the framing unless
 * there is a Content-Length.
 */
export function responseHead(response: {
  readonly status: number
  readonly rawHeaders: RawHeaders
  /** True when the client can receive a chunked body, and so trailers. */
  readonly trailersPossible: boolean
  readonly deploymentId: string
  /** Returns the host that cookies are limited to, because sibling hosts belong to other owners; null for no limit. */
  readonly sharedSite: () => string | null
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
    } else if (options?.has(lower) || lower === deploymentHeader) {
      continue
    } else if (lower === 'trailer') {
      trailer = trailer === '' ? value : `${trailer}, ${value}`
      continue
    } else if (lower === 'set-cookie') {
      if (setsFairleadCookie(value)) continue
      const hostname = namesDomain(value) ? response.sharedSite() : null
      headers.push(name, hostname === null ? value : withoutDomainAbove(value, hostname))
      continue
    }
    headers.push(name, value)
  }
  // Node announces trailers only in a chunked answer.
  if (trailer !== '' && !contentLength && response.trailersPossible) headers.push('Trailer', trailer)
  headers.push(DEPLOYMENT_HEADER_ON_WIRE, response.deploymentId)
  return headers
}

/** False when the answer ends with its head (RFC 9112 §6.3), regardless of the length that it states. */
export function mayHaveBody(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

/** Returns the app's reason phrase, or an empty one when it has forbidden characters. */
export function reasonPhrase(phrase: string): string {
  return REASON_PHRASE.test(phrase) ? phrase : ''
}

/** Returns the head of an interim answer (RFC 9110 §15.2) or of a protocol switch, to be written as latin1. */
export function rawHead(status: number, reason: string, rawHeaders: RawHeaders): string {
  let head = `HTTP/1.1 ${status} ${reasonPhrase(reason)}\r\n`
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`
  return `${head}\r\n`
}

/** Returns the headers of an interim answer for the client. An interim answer has no body and sets no cookies. */
export function interimHeaders(rawHeaders: RawHeaders): string[] {
  const options = connectionOptions(rawHeaders)
  return selectHeaders(
    rawHeaders,
    (name) => !HOP_BY_HOP.has(name) && !options?.has(name) && !NEVER_INTERIM.has(name) && !NEVER_OPTIONS.has(name),
  )
}

/** Returns the fields that may follow a body, as pairs of name and value. */
export function trailerFields(rawTrailers: RawHeaders): [string, string][] {
  const allowed = selectHeaders(
    rawTrailers,
    (name) => !HOP_BY_HOP.has(name) && !NEVER_TRAILERS.has(name) && !isForwarded(name) && name !== deploymentHeader,
  )
  return Array.from({ length: allowed.length / 2 }, (_, i) => [allowed[2 * i] ?? '', allowed[2 * i + 1] ?? ''])
}
