import { z } from 'zod'

/** A JSON Schema (2020-12) as OpenAPI 3.1 holds it, in the parts that are used here. */
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

/** What a client sends (`input`) or gets (`output`), from the schema that the server checks by. */
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
      // Of a check before the real thing nothing is known but the real thing.
      if (zodSchema instanceof z.ZodPipe && Object.keys(json).length === 0 && io === 'input') {
        Object.assign(json, schemaOf(zodSchema.out as z.ZodType, io))
      }
      // Left out where something is transformed, for they might be of what comes out; ours are of what goes in.
      const examples = z.globalRegistry.get(zodSchema as z.core.$ZodType)?.['examples']
      if (Array.isArray(examples)) json.examples = examples
      // The format says it all; the pattern behind it is 300 characters.
      if (json.format !== undefined) delete json.pattern
      if (json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum
      if (json.minimum === Number.MIN_SAFE_INTEGER) delete json.minimum
      // What an answer holds today may be more tomorrow.
      if (json.additionalProperties === false) delete json.additionalProperties
    },
  }) as Schema
}
