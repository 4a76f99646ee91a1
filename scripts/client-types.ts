import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { operations } from '../server/src/contract/operations.ts'
import { type Schema, schemaOf } from '../server/src/http/reference/json-schema.ts'

/** The declarations of the client that name no schema of zod. They are those of the server, unchanged. */
const plain = ['client', 'client-requests', 'errors', 'routes']

/**
 * Writes the types of the bundled client into a folder. Those of the contract are made of zod, which its users would have to
 * install; here the bodies and queries are written out, from the JSON Schema of the same schemas.
 */
export function writeClientTypes(folder: string): void {
  for (const name of plain) {
    const copy = join(folder, `${name}.d.ts`)
    mkdirSync(dirname(copy), { recursive: true })
    copyFileSync(`server/dist/contract/${name}.d.ts`, copy)
  }
  writeFileSync(join(folder, 'operations.d.ts'), operationTypes())
}

function operationTypes(): string {
  const table = (part: 'body' | 'query' | 'response') =>
    operations.map((operation) => {
      const schema = operation[part]
      const io = part === 'response' ? 'output' : 'input'
      return `  '${operation.name}': ${schema === undefined ? 'undefined' : typeOf(schemaOf(schema, io), '  ')}`
    })
  return `import type { OperationName } from './routes.ts'

interface Bodies {
${table('body').join('\n')}
}

interface Queries {
${table('query').join('\n')}
}

interface Responses {
${table('response').join('\n')}
}

/** The body that a client sends. */
export type BodyInput<Name extends OperationName> = Bodies[Name]
/** The query parameters that a client sends, besides those of lists. */
export type QueryInput<Name extends OperationName> = Queries[Name]
/** The body of the answer. */
export type ResponseBody<Name extends OperationName> = Responses[Name]
`
}

/** Returns a schema as a type of TypeScript; lines after the first begin with `indent`. */
function typeOf(schema: Schema, indent: string): string {
  const choices = schema.anyOf ?? schema.oneOf
  // Beside properties, the choices only say which of them go together.
  if (choices !== undefined && schema.properties === undefined)
    return union(choices.map((choice) => typeOf(choice, indent)))
  if ('const' in schema) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return union(schema.enum.map((value) => JSON.stringify(value)))
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, indent)))
  if (schema.type === 'array') return `(${typeOf(schema.items ?? {}, indent)})[]`
  if (schema.type === 'object') return objectOf(schema, indent)
  if (schema.type === 'integer') return 'number'
  return schema.type ?? 'unknown'
}

function objectOf({ properties, required = [], additionalProperties }: Schema, indent: string): string {
  if (properties === undefined) {
    const values = typeof additionalProperties === 'object' ? typeOf(additionalProperties, indent) : 'unknown'
    return `Record<string, ${values}>`
  }
  const fields = Object.entries(properties).map(([name, schema]) => {
    const type = typeOf(schema, `${indent}  `)
    const comment =
      schema.description === undefined ? '' : `${indent}  /** ${schema.description.replaceAll('*/', '* /')} */\n`
    return `${comment}${indent}  ${keyOf(name)}${required.includes(name) ? `: ${type}` : `?: ${type} | undefined`}\n`
  })
  return `{\n${fields.join('')}${indent}}`
}

const keyOf = (name: string): string => (/^[a-z_]\w*$/i.test(name) ? name : JSON.stringify(name))

const union = (types: readonly string[]): string => [...new Set(types)].join(' | ')
