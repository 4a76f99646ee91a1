import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SigningKey } from '../../../receiver/src/signature/signing-key.ts'

/** Test cases of RFC 4231 with keys up to the block size and without truncation: key, data, result. */
const cases = [
  ['0b'.repeat(20), '4869205468657265', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
  [
    '4a656665',
    '7768617420646f2079612077616e7420666f72206e6f7468696e673f',
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  ],
  ['aa'.repeat(20), 'dd'.repeat(50), '773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe'],
  [
    '0102030405060708090a0b0c0d0e0f10111213141516171819',
    'cd'.repeat(50),
    '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b',
  ],
] as const

describe('a signing key', () => {
  it.each(cases)('computes the HMAC of RFC 4231 with the key %s', (key, data, result) => {
    const mac = new SigningKey(Buffer.from(key, 'hex')).sign('', Buffer.from(data, 'hex'))
    expect(Buffer.from(mac, 'base64').toString('hex')).toBe(result)
  })

  it('computes the same HMAC as Node, however often it signs', () => {
    const texts = fc.string({ unit: 'binary', maxLength: 300 })
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 64 }),
        fc.array(fc.tuple(texts, fc.uint8Array({ maxLength: 3000 })), { maxLength: 5 }),
        (secret, messages) => {
          const key = new SigningKey(secret)
          for (const [text, bytes] of messages) {
            expect(key.sign(text, bytes)).toBe(createHmac('sha256', secret).update(text).update(bytes).digest('base64'))
          }
        },
      ),
    )
  })

  it('refuses a secret that is longer than a block', () => {
    expect(() => new SigningKey(Buffer.alloc(65))).toThrow(RangeError)
  })
})
