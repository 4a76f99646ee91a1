import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonTextProblem } from '../../../server/src/http/json-text.ts'

describe('a JSON text', () => {
  it('of a value whose keys are unique passes, however it is laid out', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), fc.integer({ min: 0, max: 4 }), (value, indent) => {
        expect(jsonTextProblem(JSON.stringify(value, null, indent))).toBeUndefined()
      }),
    )
  })

  it('with a duplicate key is detected, at any depth and after any string', () => {
    const key = fc.string({ unit: 'binary' })
    fc.assert(
      fc.property(key, fc.jsonValue({ maxDepth: 3 }), fc.integer({ min: 0, max: 10 }), (name, value, depth) => {
        const member = `${JSON.stringify(name)}: ${JSON.stringify(value)}`
        const inner = `{${member},"other${name.length}${JSON.stringify(name).length}":"{[,\\"\\\\",${member}}`
        const text = `${'[{"a":'.repeat(depth)}${inner}${'}]'.repeat(depth)}`
        expect(() => JSON.parse(text)).not.toThrow()
        expect(jsonTextProblem(text)).toEqual({ kind: 'duplicate', path: `${'0.a.'.repeat(depth)}${name}` })
      }),
    )
  })

  it('may repeat a key in different objects', () => {
    expect(jsonTextProblem('[{"a":{"a":1}},{"a":2},{"b":["a","a"],"a":3}]')).toBeUndefined()
  })

  it('is too deep from the 33rd level on', () => {
    expect(jsonTextProblem('['.repeat(32) + ']'.repeat(32))).toBeUndefined()
    expect(jsonTextProblem('['.repeat(33) + ']'.repeat(33))).toEqual({ kind: 'too deep', maxDepth: 32 })
  })
})
