import { describe, expect, it } from 'vitest'
import { createOutbound } from '../../../server/src/platform/outbound.ts'

const outbound = createOutbound({ mode: 'public', allow: ['10.9.0.0/16'], ports: [] })

describe('a public server', () => {
  it.each([
    '0.0.0.0',
    '10.0.0.1',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:a00:1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    'fd00::1',
    'fe80::1',
    'fec0::1',
    'ff02::1',
    'fd00:ec2::254',
    'no address',
  ])('does not connect to %s', (address) => {
    expect(outbound.allows(address)).toBe(false)
  })

  it.each(['8.8.8.8', '1.1.1.1', '172.32.0.1', '2606:4700:4700::1111', '::ffff:8.8.8.8', '10.9.1.1'])(
    'connects to %s',
    (address) => {
      expect(outbound.allows(address)).toBe(true)
    },
  )

  it('refuses a name that resolves to a private address', async () => {
    await expect(outbound.resolve('localhost')).rejects.toMatchObject({ code: 'address_refused' })
  })

  it('refuses literals in brackets too', async () => {
    await expect(outbound.resolve('[::1]')).rejects.toMatchObject({ code: 'address_refused' })
  })
})

it('connects everywhere in the mode any', () => {
  expect(createOutbound({ mode: 'any', allow: [], ports: [] }).allows('127.0.0.1')).toBe(true)
})

it.each(['example.com', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/8/9', '10.0.0.0/0x8', '10.0.0.0/ 8', '::/129', ''])(
  'refuses the allow-list entry "%s", which is no network',
  (entry) => {
    expect(() => createOutbound({ mode: 'public', allow: [entry], ports: [] })).toThrow(/is not an IP address/)
  },
)
