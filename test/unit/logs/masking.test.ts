import { randomBytes } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createMasker, createMaskerInTurns } from '../../../server/src/logs/masking.ts'

/** The text with these values replaced by `***`. */
const maskValues = (text: string, values: readonly string[]): string => createMasker(values).mask(text)

const key = '-----BEGIN KEY-----\nc2VjcmV0IG9uZQ\nc2VjcmV0IHR3bw==\n-----END KEY-----'

/** Ways in which programs encode a value. */
const spellings: Record<string, (value: string) => string> = {
  'as it is': (value) => value,
  'in JSON': (value) => JSON.stringify(value).slice(1, -1),
  'in JSON of ASCII alone, as Python writes it': (value) =>
    JSON.stringify(value)
      .slice(1, -1)
      .replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  'in JSON for web pages, as Go and PHP write it': (value) =>
    JSON.stringify(value).slice(1, -1).replaceAll('&', '\\u0026').replaceAll('<', '\\u003C').replaceAll('/', '\\/'),
  'in JSON in JSON': (value) => JSON.stringify(JSON.stringify(value)).slice(3, -3),
  'as Node shows it': (value) => inspect(value).slice(1, -1),
  'in base64': (value) => Buffer.from(value).toString('base64'),
  'in base64 for URLs': (value) => Buffer.from(value).toString('base64url'),
  'in base64 after one byte': (value) => Buffer.from(`:${value}:`).toString('base64'),
  'in base64 after two bytes': (value) => Buffer.from(`u:${value}`).toString('base64'),
  'in lines of base64': (value) =>
    (
      Buffer.from(value)
        .toString('base64')
        .match(/.{1,10}/g) ?? []
    ).join('\r\n'),
  'in base64 in a URL': (value) => encodeURIComponent(Buffer.from(value).toString('base64')),
  'in base64 in a form': (value) =>
    new URLSearchParams({ '': Buffer.from(value).toString('base64') }).toString().slice(1),
  'in base64 in JSON, as PHP writes it': (value) => Buffer.from(value).toString('base64').replaceAll('/', '\\/'),
  'in lines of base64 in JSON': (value) =>
    JSON.stringify(
      (
        Buffer.from(value)
          .toString('base64')
          .match(/.{1,10}/g) ?? []
      ).join('\n'),
    ).slice(1, -1),
  'in a URL': encodeURIComponent,
  'in a form': (value) => new URLSearchParams({ '': value }).toString().slice(1),
  'in a URL, in small letters': (value) => encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
}

/** Text that shares no eight characters with the secrets of the tests. */
const around = fc.string({ unit: fc.constantFrom('a', 'é', ' ', '\n', '%', '+', '='), maxLength: 40 })
const secretText = fc.string({
  unit: fc.constantFrom('Q', 'z', '7', '/', '+', ' ', 'ß', '🔑', '"', '%', '\\', "'", '&', '<'),
  minLength: 9,
  maxLength: 60,
})

describe('masking', () => {
  it.each(Object.entries(spellings))('hides a value %s', (_, spell) => {
    const value = 'p@ss word/+~ü"ok?'
    expect(maskValues(`before <${spell(value)}> after`, [value])).toMatch(/^before <\S{0,3}\*\*\*\S{0,6}> after$/)
  })

  it('hides each line of a value of several lines, except short lines', () => {
    expect(maskValues('c2VjcmV0IG9uZQ and c2VjcmV0IHR3bw==', [key])).toBe('*** and ***')
    expect(maskValues(`{"k":${JSON.stringify(key)}`, [key])).toBe('{"k":"***"')
  })

  it.each([
    ['p@ss"w\\örd', "{ s: 'p@ss\"w\\\\örd' }"],
    ['p@ss"w\\ord', '\\x70@ss\\x22w\\x5Cord'],
    ['key-\u0007-of-🔑-bell', 'key-\\u0007-of-\\uD83D\\uDD11-bell'],
    ['C:\\new\\table', 'C:\\new\\table'],
  ])('hides %j in any escaping', (value, text) => {
    expect(maskValues(text, [value])).toMatch(/^({ s: ')?\*\*\*(' })?$/)
  })

  it.each([
    ['trimmed', ' \ta secret text\n', 'a secret text'],
    ['trimmed, line by line', 'a secret text \n  another secret', 'another secret'],
    ['between lone carriage returns', 'a secret text\ranother secret', 'another secret'],
  ])('hides a value %s', (_, value, text) => {
    expect(maskValues(`<${text}>`, [value])).toBe('<***>')
  })

  it('does not hide values that are too short to be secret, nor other text', () => {
    expect(maskValues('true is 1, 100% + é', ['true', '1', '', 'something else'])).toBe('true is 1, 100% + é')
  })

  it('hides the longer of two nested values, and both overlapping values', () => {
    expect(maskValues('abcdefghijkl abcdefgh', ['abcdefgh', 'abcdefghijkl'])).toBe('*** ***')
    expect(maskValues('-abcdefghijkl-', ['abcdefgh', 'efghijkl'])).toBe('-***-')
    expect(maskValues('-abababababab-', ['abababab'])).toBe('-***-')
  })

  it('leaves nothing of any value in any encoding, anywhere', () => {
    fc.assert(
      fc.property(
        around,
        secretText,
        fc.constantFrom(...Object.values(spellings)),
        around,
        (before, value, spell, after) => {
          const spelled = spell(value)
          const masked = maskValues(`${before}${spelled}${after}`, [value])
          expect(masked).not.toContain(value)
          expect(masked).toContain('***')
          // Only the characters at either end that share bits with a neighbour may remain.
          expect(masked.length).toBeLessThanOrEqual(
            before.length + after.length + 3 + 12 + 5 * Math.floor(spelled.length / 64),
          )
        },
      ),
    )
  })

  it.each([
    ['%a', '7%25Q7Qz7Q', '7%Q7Qz7Q'],
    ['%', 'a7%25Qz7Qz', 'a7%Qz7Qz'],
    ['\\', 'n"Qz7Qz7Qz'.replace('"', '\\"'), 'n"Qz7Qz7Qz'],
    ['\\u00', '41\\"Qz7Qz7Qz', '41"Qz7Qz7Qz'],
  ])('hides an encoded value after %j, which looks like the beginning of an escape', (before, spelled, value) => {
    expect(maskValues(`${before}${spelled}`, [value])).toBe(`${before}***`)
  })

  it('hides every sufficiently long piece of a long value', () => {
    const value = Array.from({ length: 2_000 }, (_, index) => index.toString(36)).join('')
    expect(maskValues(`<${value}>`, [value])).toBe('<***>')
    expect(maskValues(`<${value.slice(500, 1_000)}>`, [value]).length).toBeLessThan(2 * 64 + 10)
    const inLines = Buffer.from(value).toString('base64').replace(/.{76}/g, '$&\n')
    expect(maskValues(inLines, [value]).replace(/[*\n=]/g, '').length).toBe(0)
  })

  it('handles variables of any size, and a text that is full of secrets', () => {
    const value = Array.from({ length: 60_000 }, (_, index) => index.toString(36).padStart(4, '-')).join('')
    expect(maskValues(value, [value])).toBe('***')
    const masked = maskValues('secret 1 \\n'.repeat(100_000), ['secret 1'])
    expect(masked).toBe('*** \\n'.repeat(100_000))
  })

  it('with many values takes turns with other work, and finds the same', async () => {
    const values = Array.from({ length: 150 }, () => randomBytes(200).toString('hex'))
    let [turns, isMade] = [0, false]
    const others = async () => {
      for (; !isMade; turns++) await setImmediate()
    }
    const [masker] = await Promise.all([
      createMaskerInTurns(values).finally(() => {
        isMade = true
      }),
      others(),
    ])
    expect(turns).toBeGreaterThan(10)
    const text = `${values[7]} ${Buffer.from(values[8] ?? '').toString('base64')} and ${encodeURIComponent('ä')}`
    expect(masker.mask(text)).toBe(createMasker(values).mask(text))
    expect(masker.mask(text)).toContain('***')
  })

  it('takes a bounded time for the slowest values and texts', () => {
    const values = Array.from({ length: 200 }, (_, index) => `${'a'.repeat(5_000)}${index}`)
    const masker = createMasker(values)
    expect(masker.reach).toBeLessThan(1_000)
    expect(masker.find(Buffer.alloc(64 * 1024, 'a'))).toEqual([{ from: 0, to: 64 * 1024 }])
  })
})
