import { isIP } from 'node:net'
import type { Outbound } from '../platform/outbound.ts'

/**
 * Returns why nothing may be sent to an endpoint's address, or `undefined` when it is fine. The addresses that a host name
 * resolves to are checked at each connection.
 */
export function urlProblem(url: string, outbound: Outbound): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the check refuses these characters.
  if (/[\s\x00-\x1f\x7f]/.test(url) || !url.isWellFormed()) return 'must not contain spaces or control characters'
  if (!URL.canParse(url)) return 'must be an address such as https://example.com/webhooks'
  const parsed = new URL(url)
  if (parsed.protocol !== 'https:' && parsed.protocol !== 'http:') return 'must begin with https:// or http://'
  if (parsed.username !== '' || parsed.password !== '') return 'must not carry a user name or password'
  const host = parsed.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !outbound.allows(host)) return 'must lead to a public address'
  if (parsed.port !== '' && !outbound.allowsPort(Number(parsed.port))) {
    return 'must have the port 80, 443 or one above 1023'
  }
  return undefined
}
