import type { IncomingMessage } from 'node:http'
import { isIP, type Socket } from 'node:net'

export type IsTrustedProxy = (address: string) => boolean

/** Connections of the edge, known by their listener, because a Unix socket has no address to compare. */
const fromEdge = new WeakSet<Socket>()

/** Trusts the `X-Forwarded-*` headers of a connection, because only the edge can have opened it. */
export function trustAsEdge(socket: Socket): void {
  fromEdge.add(socket)
}

export const isFromEdge = (socket: Socket): boolean => fromEdge.has(socket)

/** True when the peer of a connection is a trusted proxy. A connection without an address is never trusted. */
function isTrustedPeer(socket: Socket, isTrustedProxy: IsTrustedProxy): boolean {
  const address = peerAddress(socket)
  return isFromEdge(socket) || (address !== '' && isTrustedProxy(address))
}

/**
 * Returns the address of the connection, or the rightmost entry of `X-Forwarded-For` that is not a trusted proxy.
 * Clients can write the entries left of it.
 */
export function clientAddress(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  let address = peerAddress(request.socket)
  let isTrusted = isTrustedPeer(request.socket, isTrustedProxy)
  for (const entry of forwardedFor(request).reverse()) {
    if (!isTrusted || isIP(plain(entry)) === 0) break
    address = plain(entry)
    isTrusted = isTrustedProxy(address)
  }
  return address
}

/** Returns the address of the client, or of the proxy in front of the server. */
export function peerAddress({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string {
  return plain(remoteAddress ?? '')
}

/** True when a trusted proxy reports that the client uses HTTPS. The server itself speaks HTTP only. */
export function isSecure(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): boolean {
  return forwardedHeader(request, 'x-forwarded-proto', isTrustedProxy) === 'https'
}

/** Returns the host as the client sent it, with a port if it named one. */
export function clientHost(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  return forwardedHeader(request, 'x-forwarded-host', isTrustedProxy) ?? request.headers.host ?? ''
}

/** Returns the address by which the client has reached the server, such as `https://fairlead.example.com`. */
export function clientOrigin(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  const host = clientHost(request, isTrustedProxy)
  // A client can send anything.
  const safe = /^(\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?$/i.test(host) ? host : 'localhost'
  return `${isSecure(request, isTrustedProxy) ? 'https' : 'http'}://${safe}`
}

/**
 * Returns the unit that limits count by: an IPv4 address, or the /64 of an IPv6 address, which one site usually has.
 */
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

/** Returns the last value, which the nearest proxy has set, if this proxy is trusted. */
function forwardedHeader(request: IncomingMessage, header: string, isTrustedProxy: IsTrustedProxy): string | undefined {
  const value = request.headers[header]
  if (value === undefined || !isTrustedPeer(request.socket, isTrustedProxy)) return undefined
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

/** Returns an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2) as the IPv4 address. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '')
}
