import { type IdKind, idPrefixes } from '../../contract/ids.ts'
import type { Schema } from './schemas.ts'

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

/** Returns an identifier of a kind, such as `proj_01h455vb4pex5vsknk084sn02q`. */
export function exampleId(kind: IdKind): string {
  return `${idPrefixes[kind]}_01h455vb4pex5vsknk084sn02q`
}

/** Returns a value that fits a schema: its own example if it has one. `kind` is what an `id` in it identifies. */
export function exampleOf(schema: Schema, kind: IdKind, name = ''): unknown {
  if (schema.examples !== undefined) return schema.examples[0]
  for (const given of [schema.const, schema.default, schema.enum?.[0]]) if (given !== undefined) return given
  // The alternatives of an object with members of its own only say which of them belong together.
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

/** Returns the type of a schema that is not null. */
export function typeOf(schema: Schema): string | undefined {
  return Array.isArray(schema.type) ? schema.type.find((type) => type !== 'null') : schema.type
}
