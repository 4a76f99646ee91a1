import fc from 'fast-check'
import { expect, it } from 'vitest'
import { storableText } from '../../../server/src/features/webhooks/send.ts'

it('any bytes become text that the database can store, within the limit', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat({ max: 220 }), (bytes, limit) => {
      const text = storableText(Buffer.from(bytes), limit)
      expect(text.isWellFormed()).toBe(true)
      expect(text).not.toContain('\0')
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(limit)
    }),
  )
})

it('valid text stays unchanged, and is cut between characters', () => {
  expect(storableText(Buffer.from('{"é":"漢字😀"}'), 100)).toBe('{"é":"漢字😀"}')
  expect(storableText(Buffer.from(`${'a'.repeat(9)}\xff\xff`, 'latin1'), 12)).toBe(`${'a'.repeat(9)}\ufffd`)
})
