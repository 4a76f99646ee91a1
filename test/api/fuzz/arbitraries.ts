import fc from 'fast-check'
import { type IdKind, idPrefixes } from '../../../server/src/contract/ids.ts'
import type { Schema } from '../../../server/src/http/reference/json-schema.ts'

/** Generates values that fit a JSON Schema, with the keywords that the contract uses. */
export function fitting(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  const choices = schema.properties === undefined ? (schema.anyOf ?? schema.oneOf) : undefined
  if (choices !== undefined) return fc.oneof(...choices.map(fitting))
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => fitting({ ...schema, type })))
  switch (schema.type) {
    case 'null':
      return fc.constant(null)
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -(2 ** 31), max: schema.maximum ?? 2 ** 31 })
    case 'number':
      return fc.double({ noNaN: true, noDefaultInfinity: true, ...bounds(schema) })
    case 'string':
      return text(schema)
    case 'array':
      return fc.array(fitting(schema.items ?? {}), { minLength: schema.minItems ?? 0, maxLength: schema.maxItems ?? 5 })
    case 'object':
      return object(schema)
    default:
      return fc.jsonValue({ maxDepth: 3 })
  }
}

function bounds({ minimum, maximum }: Schema): { min?: number; max?: number } {
  return { ...(minimum === undefined ? {} : { min: minimum }), ...(maximum === undefined ? {} : { max: maximum }) }
}

function text({ pattern, format, minLength = 0, maxLength = 100 }: Schema): fc.Arbitrary<string> {
  if (format === 'date-time') return fc.date({ noInvalidDate: true }).map((date) => date.toISOString())
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern))
  const length = { minLength, maxLength: Math.min(maxLength, 100) }
  return fc.oneof(fc.string(length), fc.string({ ...length, unit: 'binary' }), fc.webUrl(), fc.domain(), awkwardText)
}

/** Strings that often reveal bugs. */
const awkwardText = fc.constantFrom(
  ...['', ' ', '\0', '\u202e', '\ud800', '../../etc/passwd', '%00', "'; drop table projects; --", '__proto__'],
  ...[
    '-1',
    '1e999',
    'null',
    'true',
    '\r\nX: y',
    'ext::sh -c id',
    '--upload-pack=id',
    'x'.repeat(5000),
    '😀'.repeat(200),
  ],
)

function object(schema: Schema): fc.Arbitrary<unknown> {
  const properties = Object.entries(schema.properties ?? {})
  if (properties.length === 0 && typeof schema.additionalProperties === 'object') {
    const name = schema.propertyNames === undefined ? fc.string() : text(schema.propertyNames)
    return fc.dictionary(name, fitting(schema.additionalProperties), { maxKeys: 5 })
  }
  return fc.oneof(...(schema.oneOf ?? [{}]).map((form) => ofForm(schema, form)))
}

/**
 * Generates an object of one form of `oneOf`: with the members that this form requires, without those that only other
 * forms require.
 */
function ofForm(schema: Schema, form: Schema): fc.Arbitrary<unknown> {
  const others = (schema.oneOf ?? []).filter((other) => other !== form).flatMap(({ required = [] }) => required)
  const barred = new Set([...others, ...(form.not?.required ?? [])])
  const properties = Object.entries(schema.properties ?? {}).filter(([name]) => !barred.has(name))
  const model = properties.map(([name, member]) => [name, fitting(member)] as const)
  const requiredKeys = [...(schema.required ?? []), ...(form.required ?? [])]
  return fc.record(Object.fromEntries(model), { requiredKeys, noNullPrototype: true })
}

const digits = '0123456789abcdefghjkmnpqrstvwxyz'

/** The last 26 characters of an identifier. */
const suffix = fc
  .uint8Array({ minLength: 26, maxLength: 26 })
  .map((bytes) => Array.from(bytes, (byte, at) => digits[byte % (at === 0 ? 8 : 32)]).join(''))

const noIdentifier = fc.oneof(awkwardText, fc.string({ unit: 'binary', minLength: 1 })).filter((value) => {
  // An empty segment, `.` or `..` would change the path.
  return !/^\.{0,2}$/.test(value) && value.isWellFormed()
})

/** Generates values for an identifier: an existing id, a random id, or any other string. */
export function identifier(kind: IdKind, existing: readonly string[]): fc.Arbitrary<string> {
  const made = suffix.map((end) => `${idPrefixes[kind]}_${end}`)
  if (existing.length === 0) return fc.oneof(made, noIdentifier)
  return fc.oneof(
    { weight: 1, arbitrary: made },
    { weight: 1, arbitrary: noIdentifier },
    { weight: 8, arbitrary: fc.constantFrom(...existing) },
  )
}

/** Generates invalid bodies: with a missing or mistyped member, or no object at all. */
export function mutated(body: fc.Arbitrary<Record<string, unknown>>): fc.Arbitrary<unknown> {
  const strange = fc.oneof(fc.jsonValue({ maxDepth: 4 }), awkwardText, fc.constant('x'.repeat(100_000)))
  return fc.oneof(
    fc.jsonValue(),
    fc.tuple(body, fc.nat(), strange).map(([given, at, value]) => {
      const names = Object.keys(given)
      const name = names[at % Math.max(1, names.length)]
      return name === undefined ? value : { ...given, [name]: value }
    }),
    fc.tuple(body, fc.nat()).map(([given, at]) => {
      const names = Object.keys(given)
      const lost = names[at % Math.max(1, names.length)]
      return Object.fromEntries(Object.entries(given).filter(([name]) => name !== lost))
    }),
  )
}

/** Generates corrupted JSON: some bytes are removed and others inserted. */
export function mangled(text: fc.Arbitrary<string>): fc.Arbitrary<Uint8Array> {
  return fc.tuple(text, fc.nat(), fc.nat(), fc.uint8Array({ maxLength: 8 })).map(([given, from, length, put]) => {
    const bytes = Buffer.from(given)
    const at = from % (bytes.length + 1)
    return Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + (length % 4))])
  })
}
