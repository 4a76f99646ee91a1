/** Alternating names and values as received, with their case, order and repetitions. */
export type RawHeaders = readonly string[]

/** Headers that describe one connection, not the message (RFC 9110 §7.6.1). */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
])

/** Host and framing belong to the message, so a Connection header cannot remove them. */
export const NEVER_OPTIONS: ReadonlySet<string> = new Set(['host', 'content-length'])

/** The usual headers about the client, and `Forwarded` (RFC 7239). */
const FORWARDED = /^(?:forwarded|x-real-ip|x-forwarded-.+)$/

/**
 * True for a header that describes the client. An underscore counts as a hyphen, because CGI and WSGI apps see the same
 * name for both. The first letter is checked first because it rules out most names.
 */
export function isForwarded(lowerCaseName: string): boolean {
  return (
    (lowerCaseName.startsWith('x') || lowerCaseName.startsWith('f')) &&
    FORWARDED.test(lowerCaseName.replaceAll('_', '-'))
  )
}

export function selectHeaders(rawHeaders: RawHeaders, keep: (lowerCaseName: string) => boolean): string[] {
  const kept: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (keep(name.toLowerCase())) kept.push(name, rawHeaders[i + 1] as string)
  }
  return kept
}

/** Returns the header names listed in Connection; null in the usual case that it lists no names. */
export function connectionOptions(rawHeaders: RawHeaders): Set<string> | null {
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

/** Returns the Content-Length of a head, which may have at most one; null when there is none. */
export function contentLength(headers: RawHeaders): number | null {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === 14 && name.toLowerCase() === 'content-length') return Number(headers[i + 1])
  }
  return null
}

/**
 * The response header that names the deployment that answered, in lower case as in Node's `headers`. Only the gateway
 * sets it; the same header from an app is removed.
 */
export const deploymentHeader = 'x-fairlead-deployment'

export const DEPLOYMENT_HEADER_ON_WIRE = deploymentHeader.replace(/\b[a-z]/g, (letter) => letter.toUpperCase())
