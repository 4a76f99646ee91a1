import { z } from 'zod'

/** The parts of JSON Schema (2020-12) that the OpenAPI 3.1 document uses. */
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

/** Returns what a client sends (`input`) or gets (`output`) as JSON Schema, from the schema that the server validates with. */
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
      // A check that precedes the actual schema has no JSON Schema; use that of the actual schema.
      if (zodSchema instanceof z.ZodPipe && Object.keys(json).length === 0 && io === 'input') {
        Object.assign(json, schemaOf(zodSchema.out as z.ZodType, io))
      }
      // Zod omits examples of transformed types, since they could be outputs. Ours are inputs.
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
