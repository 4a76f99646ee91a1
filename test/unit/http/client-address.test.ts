import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clientAddress, clientHost, isSecure, networkOf } from '../../../server/src/http/client-address.ts'

const request = (remoteAddress: string, headers: Record<string, string> = {}) =>
  ({ socket: { remoteAddress }, headers }) as unknown as IncomingMessage
const trusted = (address: string) => address.startsWith('10.')

describe('the address of the client', () => {
  it.each([
    ['the connection itself', '192.0.2.1', undefined, '192.0.2.1'],
    ['the connection itself, despite its header', '192.0.2.1', '198.51.100.1', '192.0.2.1'],
    ["the proxy's entry", '10.0.0.1', '192.0.2.1', '192.0.2.1'],
    ['the rightmost entry that is not a proxy', '10.0.0.1', '198.51.100.1, 192.0.2.1, 10.0.0.2', '192.0.2.1'],
    ['the farthest proxy, when all are proxies', '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['the proxy that passed on nonsense', '10.0.0.1', '192.0.2.1, nonsense', '10.0.0.1'],
    ['IPv4 inside IPv6', '::ffff:10.0.0.1', '::ffff:192.0.2.1', '192.0.2.1'],
    ['IPv6', '10.0.0.1', '2001:db8::1', '2001:db8::1'],
  ])('is %s', (_, remote, forwarded, expected) => {
    const headers: Record<string, string> = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
    expect(clientAddress(request(remote, headers), trusted)).toBe(expected)
  })

  it('ignores the entries left of the proxy’s entry', () => {
    fc.assert(
      fc.property(fc.string(), fc.ipV4(), (written, address) => {
        fc.pre(!trusted(address))
        const headers = { 'x-forwarded-for': `${written}, ${address}` }
        expect(clientAddress(request('10.0.0.1', headers), trusted)).toBe(address)
      }),
    )
  })

  it('is always an address', () => {
    fc.assert(
      fc.property(fc.string(), (written) => {
        expect(isIP(clientAddress(request('10.0.0.1', { 'x-forwarded-for': written }), () => true))).not.toBe(0)
      }),
    )
  })
})

it('takes scheme and host only from a trusted proxy', () => {
  const headers = { host: 'inner:3000', 'x-forwarded-proto': 'https', 'x-forwarded-host': 'fairlead.example.com' }
  expect(isSecure(request('10.0.0.1', headers), trusted)).toBe(true)
  expect(clientHost(request('10.0.0.1', headers), trusted)).toBe('fairlead.example.com')
  expect(isSecure(request('192.0.2.1', headers), trusted)).toBe(false)
  expect(clientHost(request('192.0.2.1', headers), trusted)).toBe('inner:3000')
})

describe('a client', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:0DB8:0:0:ffff::', '2001:db8:0:0::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
  ])('with the address %s is %s', (address, network) => {
    expect(networkOf(address)).toBe(network)
  })

  it('has the same /64, however its address is written', () => {
    const group = fc.integer({ min: 0, max: 0xffff })
    fc.assert(
      fc.property(fc.array(group, { minLength: 8, maxLength: 8 }), (groups) => {
        const written = groups.map((each) => each.toString(16)).join(':')
        const compressed = new URL(`http://[${written}]/`).hostname.slice(1, -1)
        expect(networkOf(compressed)).toBe(networkOf(written))
      }),
    )
  })
})
