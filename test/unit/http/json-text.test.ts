import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonTextProblem } from '../../../server/src/http/bodies.ts'

/** Values without the refused name. */
const values = (maxDepth: number) =>
  fc.jsonValue({ maxDepth }).filter((value) => !JSON.stringify(value).includes('"__proto__"'))

describe('a JSON text', () => {
  it('with unique keys is accepted, in any layout', () => {
    fc.assert(
      fc.property(values(8), fc.integer({ min: 0, max: 4 }), (value, indent) => {
        expect(jsonTextProblem(JSON.stringify(value, null, indent))).toBeUndefined()
      }),
    )
  })

  it('with a duplicate key is detected, at any depth and after any string', () => {
    const key = fc.string({ unit: 'binary' }).filter((name) => name !== '__proto__')
    fc.assert(
      fc.property(key, values(3), fc.integer({ min: 0, max: 10 }), (name, value, depth) => {
        const member = `${JSON.stringify(name)}: ${JSON.stringify(value)}`
        const inner = `{${member},"other${name.length}${JSON.stringify(name).length}":"{[,\\"\\\\",${member}}`
        const text = `${'[{"a":'.repeat(depth)}${inner}${'}]'.repeat(depth)}`
        expect(() => JSON.parse(text)).not.toThrow()
        expect(jsonTextProblem(text)).toEqual({
          field: `${'0.a.'.repeat(depth)}${name}`,
          message: 'must be given once',
        })
      }),
    )
  })

  it('may repeat a key in different objects', () => {
    expect(jsonTextProblem('[{"a":{"a":1}},{"a":2},{"b":["a","a"],"a":3}]')).toBeUndefined()
  })

  it('is too deep from the 33rd level on', () => {
    expect(jsonTextProblem('['.repeat(32) + ']'.repeat(32))).toBeUndefined()
    expect(jsonTextProblem('['.repeat(33) + ']'.repeat(33))).toEqual({
      field: 'body',
      message: 'must be nested at most 32 levels deep',
    })
  })

  it('may have 2,000 values, in objects and arrays together', () => {
    const elements = (count: number) => `{"a":[${'0,'.repeat(count - 1)}0]}`
    expect(jsonTextProblem(elements(1_998))).toBeUndefined()
    const tooMany = { field: 'body', message: 'must have at most 2000 values' }
    expect(jsonTextProblem(elements(2_000))).toEqual(tooMany)
    const members = `{${Array.from({ length: 90_000 }, (_, at) => `"${at}":0`).join()}}`
    expect(jsonTextProblem(members)).toEqual(tooMany)
  })

  it('has texts of at most 200,000 characters', () => {
    const text = (length: number) => JSON.stringify({ a: 'x'.repeat(length) })
    expect(jsonTextProblem(text(190_000))).toBeUndefined()
    expect(jsonTextProblem(text(200_001))).toEqual({
      field: 'body',
      message: 'must have no text of more than 200000 characters',
    })
  })

  it.each(['{"__proto__":1}', '[{"a":{"__pr\\u006fto__":{}}}]'])('with __proto__ is refused: %s', (text) => {
    expect(jsonTextProblem(text)).toEqual({ field: 'body', message: 'must not have a member named __proto__' })
  })

  it('may be invalid JSON, without an exception', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'{}[]",:\\a1 ') }), (text) => {
        jsonTextProblem(text)
      }),
    )
  })
})
