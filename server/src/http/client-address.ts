import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/** Whether an address is that of a proxy whose `X-Forwarded-*` headers are believed. */
export type IsTrustedProxy = (address: string) => boolean

/**
 * The address of the client: the connection's own, or the rightmost one in `X-Forwarded-For` that is no trusted proxy.
 * What stands left of that was written by whoever liked to.
 */
export function clientAddress(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  let address = plain(request.socket.remoteAddress ?? '')
  for (const told of forwardedFor(request).reverse()) {
    if (!isTrustedProxy(address) || isIP(plain(told)) === 0) break
    address = plain(told)
  }
  return address
}

/** Whether the client speaks HTTPS; only a trusted proxy can say so, the server itself speaks HTTP. */
export function isSecure(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): boolean {
  return toldByProxy(request, 'x-forwarded-proto', isTrustedProxy) === 'https'
}

/** The host that the client asked for, with its port where it named one. */
export function clientHost(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  return toldByProxy(request, 'x-forwarded-host', isTrustedProxy) ?? request.headers.host ?? ''
}

/** What counts as one client: an IPv4 address, or the /64 of an IPv6 one, which a single household has. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const [head = '', tail] = (address.split('%')[0] ?? '').split('::')
  const groups = head === '' ? [] : head.split(':')
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length)
  const all = [...groups, ...Array<string>(Math.max(0, missing)).fill('0'), ...(tail ?? '').split(':')]
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}

/** The last value, which the nearest proxy has set. */
function toldByProxy(request: IncomingMessage, header: string, isTrustedProxy: IsTrustedProxy): string | undefined {
  const value = request.headers[header]
  if (value === undefined || !isTrustedProxy(plain(request.socket.remoteAddress ?? ''))) return undefined
  return String(value).split(',').at(-1)?.trim()
}

function forwardedFor(request: IncomingMessage): string[] {
  const value = request.headers['x-forwarded-for']
  return value === undefined
    ? []
    : String(value)
        .split(',')
        .map((entry) => entry.trim())
}

/** An IPv4 address that came over an IPv6 socket is itself. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '')
}
