import { createHmac, randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  generateSecret,
  parseSecret,
  ReceiverError,
  type SigningKey,
  sign,
  verify,
} from '../../../receiver/src/index.ts'
import { type Vector, vectors } from '../../../receiver/src/testing.ts'
import { codeOf } from '../../harness/receiver/support.ts'

const KEY = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

const [vector] = vectors as [Vector]
const ED25519 = 'v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=='
const decoy = `v1,${Buffer.alloc(32).toString('base64')}`

const input = {
  keys: [parseSecret(KEY)],
  id: vector.id,
  timestamp: String(vector.timestamp),
  signature: vector.signature,
  body: Buffer.from(vector.body),
  now: () => vector.timestamp * 1000,
}
const withSignature = (signature: string) => codeOf(() => verify({ ...input, signature }))
const withTimestamp = (timestamp: string) => codeOf(() => verify({ ...input, timestamp }))
const at = (seconds: number, tolerance?: number) =>
  codeOf(() =>
    verify({ ...input, now: () => (vector.timestamp + seconds) * 1000, ...(tolerance !== undefined && { tolerance }) }),
  )

describe('the vectors of Standard Webhooks', () => {
  it.each(vectors)('are signed and accepted: $body', ({ secret: whole, id, timestamp, body, signature }) => {
    const key = whole.replace('whsec_', '')
    const bytes = Buffer.from(body)
    expect(sign({ key: parseSecret(key), id, timestamp, body: bytes })).toBe(signature)
    for (const secret of [key, `whsec_${key}`]) {
      const keys = [parseSecret(secret)]
      const sent = { id, timestamp: String(timestamp), signature, body: bytes }
      expect(verify({ keys, ...sent, now: () => timestamp * 1000 })).toBe(0)
    }
  })
})

describe('the list of signatures', () => {
  it('accepts a valid one behind decoys, other versions and empty entries', () => {
    expect(withSignature(`v1, ${decoy}  v2,abc ${ED25519} ${vector.signature} ${decoy}`)).toBeUndefined()
  })

  it('checks at most 32 entries', () => {
    expect(withSignature(`${`${decoy} `.repeat(31)}${vector.signature}`)).toBeUndefined()
    expect(withSignature(`${`${decoy} `.repeat(32)}${vector.signature}`)).toBe('no_matching_signature')
  })

  it.each([
    ['truncated', vector.signature.slice(0, -8)],
    ['without its padding', vector.signature.slice(0, -1)],
    ['with junk behind it', `${vector.signature}x`],
    ['with a comma behind it', `${vector.signature},`],
    ['empty', 'v1,'],
    ['of version 2', vector.signature.replace('v1,', 'v2,')],
    ['of version 1a', vector.signature.replace('v1,', 'v1a,')],
    ['in capitals', vector.signature.replace('v1,', 'V1,')],
    ['without a version', vector.signature.slice(3)],
    ['an ed25519 one', ED25519],
    ['not a signature', 'invalid_signature'],
    ['the same bytes in another base64 form', vector.signature.replace('E=', 'F=')],
    ['in the URL alphabet', vector.signature.replaceAll('+', '-').replaceAll('/', '_')],
    ['beyond ASCII', vector.signature.replace('g', '\u0167')],
    ['hexadecimal', `v1,${createHmac('sha256', Buffer.from(KEY, 'base64')).digest('hex')}`],
  ])('refuses one that is %s', (_, signature) => {
    expect(withSignature(signature)).toBe('no_matching_signature')
  })

  it('refuses one with a different last letter, right after a valid one', () => {
    expect(withSignature(vector.signature)).toBeUndefined()
    expect(withSignature(vector.signature.replace(/=$/, 'é'))).toBe('no_matching_signature')
  })

  it('refuses everything without keys', () => {
    expect(codeOf(() => verify({ ...input, keys: [] }))).toBe('no_matching_signature')
  })

  it('accepts a signature by any of several keys, and returns the key', () => {
    const other = parseSecret(generateSecret())
    expect(verify({ ...input, keys: [other, ...input.keys] })).toBe(1)
    expect(verify({ ...input, keys: [...input.keys, other] })).toBe(0)
    expect(codeOf(() => verify({ ...input, keys: [other] }))).toBe('no_matching_signature')
  })
})

it('requires a key to sign and to accept', () => {
  const key = Buffer.from(KEY, 'base64') as unknown as SigningKey
  expect(codeOf(() => sign({ key, id: 'msg_1', timestamp: 1, body: input.body }))).toBe('invalid_secret')
  expect(codeOf(() => verify({ ...input, keys: [key] }))).toBe('invalid_secret')
})

describe('the timestamp', () => {
  it('is accepted up to 300 s in the past and in the future', () => {
    expect([0, 300, -300].map((seconds) => at(seconds))).toEqual([undefined, undefined, undefined])
  })

  it('is refused at 301 s', () => {
    expect(at(301)).toBe('timestamp_too_old')
    expect(at(-301)).toBe('timestamp_too_new')
  })

  it('is compared with the given tolerance', () => {
    expect(at(10, 10)).toBeUndefined()
    expect(at(11, 10)).toBe('timestamp_too_old')
    expect(at(-1, 0)).toBe('timestamp_too_new')
  })

  it('is refused by a clock that returns NaN', () => {
    expect(at(Number.NaN)).toBe('timestamp_too_old')
  })

  it.each([
    'hello',
    '1614265330junk',
    '1614265330.999',
    '-1614265330',
    '1e9',
    ' 1614265330',
    '1614265330\n',
    '',
    '１６',
    '1'.repeat(13),
  ])('is refused as %j', (timestamp) => {
    expect(withTimestamp(timestamp)).toBe('bad_timestamp')
  })

  it('in milliseconds is refused as such', () => {
    expect(() => verify({ ...input, timestamp: '1614265330000' })).toThrow(/in milliseconds. Send .* in Unix seconds/)
  })

  it('is not signed unless it is whole seconds', () => {
    const key = parseSecret(KEY)
    for (const timestamp of [1.5, -1, Number.NaN, 1e21]) {
      expect(codeOf(() => sign({ key, id: 'msg_1', timestamp, body: input.body }))).toBe('bad_timestamp')
    }
  })
})

describe('the id', () => {
  it.each(['', 'msg.1', '.'])('is refused and not signed as %j', (id) => {
    expect(codeOf(() => verify({ ...input, id }))).toBe('bad_id')
    expect(codeOf(() => sign({ key: parseSecret(KEY), id, timestamp: 1, body: input.body }))).toBe('bad_id')
  })

  it('cannot take bytes from the body', () => {
    expect(codeOf(() => verify({ ...input, id: `${input.id}.1` }))).toBe('bad_id')
  })
})

describe('secrets', () => {
  const unsigned = { id: vector.id, timestamp: vector.timestamp, body: input.body }

  it('stay hidden where a key is logged', () => {
    const key = parseSecret(KEY)
    for (const shown of [inspect(key, { depth: 9, showHidden: true }), JSON.stringify(key), String(key)]) {
      expect(shown).not.toMatch(/[0-9a-f]{2} [0-9a-f]{2}|\d+,\d+|MfKQ/)
    }
  })

  it('leave nothing in the memory pool of small buffers', () => {
    const secret = randomBytes(24)
    const forms = [0, 0x36, 0x5c].map((mask) => Uint8Array.from(secret, (byte) => byte ^ mask))
    const sharedMemory = () => Buffer.from(Buffer.from('small').buffer)
    const before = sharedMemory()
    const key = parseSecret(secret.toString('base64'))
    sign({ ...unsigned, key })
    expect(codeOf(() => parseSecret(`${secret.toString('base64')}=`))).toBe('invalid_secret')
    for (const memory of [before, sharedMemory()]) {
      expect(memory.length).toBeGreaterThan(1024)
      expect(forms.map((form) => memory.includes(Buffer.from(form.buffer)))).toEqual([false, false, false])
    }
  })

  it('are generated with 32 random bytes that can be parsed again', () => {
    const secrets = Array.from({ length: 20 }, generateSecret)
    expect(new Set(secrets).size).toBe(20)
    for (const secret of secrets) {
      expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
      expect(Buffer.from(secret.slice('whsec_'.length), 'base64')).toHaveLength(32)
      expect(codeOf(() => parseSecret(secret))).toBeUndefined()
    }
  })

  it.each([24, 25, 26, 64])('of %i bytes are accepted with and without the prefix', (size) => {
    const text = Buffer.alloc(size, 7).toString('base64')
    const [bare, prefixed] = [text, `whsec_${text}`].map((secret) => sign({ ...unsigned, key: parseSecret(secret) }))
    expect(bare).toBe(prefixed)
  })

  it.each([
    ['empty', ''],
    ['only the prefix', 'whsec_'],
    ['23 bytes long', Buffer.alloc(23, 7).toString('base64')],
    ['65 bytes long', Buffer.alloc(65, 7).toString('base64')],
    ['one byte long', 'whsec_QQ=='],
    ['not base64', `whsec_${'*'.repeat(32)}`],
    ['in the URL alphabet', Buffer.alloc(32, 255).toString('base64url')],
    ['without its padding', generateSecret().slice(0, -1)],
    ['with a line break', `${generateSecret()}\n`],
    ['with two prefixes', `whsec_${generateSecret()}`],
    ['with a prefix in capitals', `WHSEC_${KEY}`],
  ])('are refused when %s, without being shown', (_, secret) => {
    expect(codeOf(() => parseSecret(secret))).toBe('invalid_secret')
    try {
      parseSecret(secret)
    } catch (error) {
      const shown = error instanceof ReceiverError ? `${error.message}${error.stack}` : ''
      const bare = secret.replace('whsec_', '').trim()
      expect(bare.length > 4 && shown.includes(bare)).toBe(false)
    }
  })
})

describe('any webhook', () => {
  const secretBytes = fc.uint8Array({ minLength: 24, maxLength: 64 })
  const ids = fc.string({ minLength: 1, maxLength: 40 }).filter((id) => !id.includes('.'))
  const webhook = fc.record({
    secret: secretBytes.map((bytes) => Buffer.from(bytes).toString('base64')),
    id: ids,
    timestamp: fc.integer({ min: 0, max: 999_999_999_999 }),
    body: fc.uint8Array({ minLength: 1, maxLength: 2000 }),
  })

  it('is signed with the HMAC that Node computes', () => {
    fc.assert(
      fc.property(webhook, ({ secret, id, timestamp, body }) => {
        const hmac = createHmac('sha256', Buffer.from(secret, 'base64')).update(`${id}.${timestamp}.`).update(body)
        expect(sign({ key: parseSecret(secret), id, timestamp, body })).toBe(`v1,${hmac.digest('base64')}`)
      }),
    )
  })

  it('is accepted as it was signed, and refused with any other secret', () => {
    fc.assert(
      fc.property(webhook, secretBytes, ({ secret, id, timestamp, body }, otherBytes) => {
        const key = parseSecret(secret)
        const other = parseSecret(Buffer.from(otherBytes).toString('base64'))
        fc.pre(Buffer.compare(Buffer.from(secret, 'base64'), otherBytes) !== 0)
        const signature = sign({ key, id, timestamp, body })
        const received = { id, timestamp: String(timestamp), signature, body, now: () => timestamp * 1000 }
        expect(codeOf(() => verify({ ...received, keys: [key] }))).toBeUndefined()
        expect(codeOf(() => verify({ ...received, keys: [other] }))).toBe('no_matching_signature')
      }),
    )
  })

  it('is refused after any change of one byte of its body, id, timestamp or signature', () => {
    const change = fc.record({
      part: fc.constantFrom('body', 'id', 'timestamp', 'signature'),
      at: fc.nat(),
      by: fc.integer({ min: 1, max: 255 }),
    })
    fc.assert(
      fc.property(webhook, change, ({ secret, id, timestamp, body }, { part, at: position, by }) => {
        const key = parseSecret(secret)
        const parts = {
          id: Buffer.from(id),
          timestamp: Buffer.from(String(timestamp)),
          signature: Buffer.from(sign({ key, id, timestamp, body })),
          body: Buffer.from(body),
        }
        const bytes = parts[part]
        const index = position % bytes.length
        bytes[index] = ((bytes[index] ?? 0) + by) % 256
        const received = {
          keys: [key],
          id: parts.id.toString('latin1'),
          timestamp: parts.timestamp.toString('latin1'),
          signature: parts.signature.toString('latin1'),
          body: parts.body,
          now: () => timestamp * 1000,
          tolerance: Number.MAX_SAFE_INTEGER,
        }
        expect(codeOf(() => verify(received))).toMatch(/^(no_matching_signature|bad_id|bad_timestamp)$/)
      }),
      { numRuns: 1000 },
    )
  })
})
