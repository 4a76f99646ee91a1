import { z } from 'zod'
import { type IdKind, idPrefixes } from '../../contract/ids.ts'

/** JSON Schema (2020-12), as far as the OpenAPI document uses it. */
export interface Schema {
  type?: string | string[]
  format?: string
  pattern?: string
  enum?: unknown[]
  const?: unknown
  default?: unknown
  examples?: unknown[]
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  propertyNames?: Schema
  not?: Schema
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  [key: string]: unknown
}

/**
 * Returns what a client sends (`input`) or gets (`output`) as JSON Schema, from the schema that the server validates
 * with.
 */
export function schemaOf(type: z.ZodType, io: 'input' | 'output'): Schema {
  const { $schema: _, ...schema } = convert(type, io)
  return schema
}

function convert(type: z.ZodType, io: 'input' | 'output'): Schema {
  return z.toJSONSchema(type, {
    io,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const json = jsonSchema as Schema
      // Zod gives no JSON Schema for a check in front of the actual schema.
      if (zodSchema instanceof z.ZodPipe && Object.keys(json).length === 0 && io === 'input') {
        Object.assign(json, schemaOf(zodSchema.out as z.ZodType, io))
      }
      // Zod leaves out examples of transformed types, because they could be outputs. Ours are inputs.
      const examples = z.globalRegistry.get(zodSchema as z.core.$ZodType)?.['examples']
      if (Array.isArray(examples)) json.examples = examples
      // The format says enough; its pattern has 300 characters.
      if (json.format !== undefined) delete json.pattern
      if (json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum
      if (json.minimum === Number.MIN_SAFE_INTEGER) delete json.minimum
      // Answers may gain fields.
      if (json.additionalProperties === false) delete json.additionalProperties
    },
  }) as Schema
}

export interface Field {
  /** The path of the field, such as `resources.deployments` or `projects[].id`. */
  readonly path: string
  readonly type: string
  readonly required: boolean
  readonly description: string
  readonly range: string
  readonly details: string
}

/** Returns every field of a schema in one list; fields of nested objects have their paths. */
export function fieldsOf(schema: Schema, prefix = ''): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, given]): Field[] => {
    const path = prefix + name
    const member = { ...given.anyOf?.find(({ type }) => type !== 'null'), ...given }
    const field = {
      path,
      type: typeText(given),
      required: schema.required?.includes(name) ?? false,
      description: sentences(member.description, choicesOf(member)),
      range: rangeOf(member),
      details: sentences(patternOf(member), defaultOf(member)),
    }
    const items = member.items
    const within = items === undefined ? fieldsOf(member, `${path}.`) : fieldsOf(items, `${path}[].`)
    return [field, ...within]
  })
}

function typeText(schema: Schema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeText).join(' or ')
  if (Array.isArray(schema.type) && schema.type.length > 1) return schema.type.join(' or ')
  const type = typeOf(schema) ?? 'any'
  if (type === 'array') return `array of ${typeText(schema.items ?? {})}`
  if (type === 'object' && typeof schema.additionalProperties === 'object') {
    return `object of ${typeText(schema.additionalProperties)}`
  }
  return schema.format === 'date-time' ? 'timestamp' : type
}

function choicesOf(schema: Schema): string {
  const choices = schema.enum ?? schema.items?.enum
  const list = choices?.map((value) => `\`${value}\``).join(', ')
  if (list === undefined) return ''
  return schema.enum === undefined ? `Each one of ${list}.` : `One of ${list}.`
}

function rangeOf({ minLength, maxLength, minimum, maximum }: Schema): string {
  const length = range(minLength, maxLength)
  const value = range(minimum, maximum)
  return sentences(length === '' ? '' : `${length} characters.`, value === '' ? '' : `${value}.`)
}

function patternOf({ pattern }: Schema): string {
  return pattern === undefined ? '' : `Matches \`${pattern}\`.`
}

function defaultOf(schema: Schema): string {
  return schema.default === undefined ? '' : `Default \`${JSON.stringify(schema.default)}\`.`
}

export function sentences(...all: readonly (string | undefined)[]): string {
  return all.filter((text) => text !== undefined && text !== '').join(' ')
}

function range(from: number | undefined, to: number | undefined): string {
  if (from !== undefined && to !== undefined) return `${from} to ${to}`
  if (to !== undefined) return `At most ${to}`
  return from === undefined ? '' : `At least ${from}`
}

/** Examples of strings by field name, for schemas without an example. */
const texts: Readonly<Record<string, string>> = {
  name: 'shop',
  region: 'eu-1',
  plan: 'free',
  branch: 'main',
  git_url: 'https://github.com/example/shop.git',
  commit: '5f2b7c1d9e0a4b6c8d7e6f5a4b3c2d1e0f9a8b7c',
  keep_env_vars: 'DATABASE_URL',
  env_var_names: 'DATABASE_URL',
  latest_id: exampleId('deployment'),
  version: '18',
  code: 'build_failed',
  message: 'The build ended with status 1.',
  sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  content_type: 'image/png',
  address: '203.0.113.7',
  events: 'deployment.succeeded',
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  connection_string: 'postgresql://shop:password@db.example.com:5432/shop',
}

export function exampleId(kind: IdKind): string {
  return `${idPrefixes[kind]}_01h455vb4pex5vsknk084sn02q`
}

/**
 * Returns a value that fits a schema; its own example if it has an example. An `id` in it identifies a resource of this
 * kind.
 */
export function exampleOf(schema: Schema, kind: IdKind, name = ''): unknown {
  if (schema.examples !== undefined) return schema.examples[0]
  for (const given of [schema.const, schema.default, schema.enum?.[0]]) if (given !== undefined) return given
  // If an object has properties, its alternatives only say which of them belong together.
  const choices = schema.properties === undefined ? (schema.anyOf ?? schema.oneOf) : undefined
  const choice = choices?.find((each) => each.type !== 'null')
  if (choice !== undefined) return exampleOf(choice, kind, name)
  switch (typeOf(schema)) {
    case 'object':
      return objectExample(schema, kind)
    case 'array':
      return [exampleOf(schema.items ?? {}, kindOfItems(name) ?? kind, name)]
    case 'integer':
    case 'number':
      return Math.max(schema.minimum ?? 0, Math.min(1, schema.maximum ?? 1))
    case 'boolean':
      return true
    case 'string':
      return textExample(schema, kind, name)
    default:
      return null
  }
}

function objectExample(schema: Schema, kind: IdKind): Record<string, unknown> {
  const [first, ...more] = schema.oneOf ?? []
  const others = new Set([...more.flatMap(({ required = [] }) => required), ...(first?.not?.required ?? [])])
  const members = Object.entries(schema.properties ?? {}).filter(([name]) => !others.has(name))
  if (members.length === 0 && typeof schema.additionalProperties === 'object') {
    return { NAME: exampleOf(schema.additionalProperties, kind) }
  }
  return Object.fromEntries(members.map(([name, member]) => [name, exampleOf(member, kind, name)]))
}

function textExample(schema: Schema, kind: IdKind, name: string): string {
  if (schema.format === 'date-time') return '2026-01-31T12:00:00.000Z'
  if (name === 'id') return exampleId(kind)
  const named = name.endsWith('_id') ? name.slice(0, -'_id'.length) : ''
  if (isKind(named)) return exampleId(named)
  return texts[name] ?? (/(^|_)url$/.test(name) ? 'https://shop.example.com' : 'value')
}

/** Returns the kind that a plural names: `delivery` for `deliveries`. */
function kindOfItems(name: string): IdKind | undefined {
  const one = name.replace(/ies$/, 'y').replace(/s$/, '')
  return isKind(one) ? one : undefined
}

function isKind(name: string): name is IdKind {
  return Object.hasOwn(idPrefixes, name)
}

function typeOf(schema: Schema): string | undefined {
  return Array.isArray(schema.type) ? schema.type.find((type) => type !== 'null') : schema.type
}
