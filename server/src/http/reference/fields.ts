import { typeOf } from './examples.ts'
import type { Schema } from './schemas.ts'

export interface Field {
  /** A path such as `resources.deployments` or `projects[].id`. */
  readonly path: string
  readonly type: string
  readonly required: boolean
  /** The description and the limits. */
  readonly text: string
}

/** Returns every field of a schema in one list, those of nested objects by their paths. */
export function fieldsOf(schema: Schema, prefix = ''): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, given]): Field[] => {
    const path = prefix + name
    const member = given.anyOf?.find(({ type }) => type !== 'null') ?? given
    const field = {
      path,
      type: typeText(given),
      required: schema.required?.includes(name) ?? false,
      text: textOf(given),
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

function textOf(schema: Schema): string {
  const choices = schema.enum ?? schema.items?.enum
  return [
    schema.description ?? '',
    choices === undefined ? '' : `One of ${choices.map((value) => `\`${value}\``).join(', ')}.`,
    limits(schema),
    schema.default === undefined ? '' : `Default \`${JSON.stringify(schema.default)}\`.`,
  ]
    .filter((text) => text !== '')
    .join(' ')
}

function limits({ minLength, maxLength, minimum, maximum, pattern }: Schema): string {
  const length = range(minLength, maxLength)
  const value = range(minimum, maximum)
  return [
    length === '' ? '' : `${length} characters.`,
    value === '' ? '' : `${value}.`,
    pattern === undefined ? '' : `Matches \`${pattern}\`.`,
  ]
    .filter((text) => text !== '')
    .join(' ')
}

function range(from: number | undefined, to: number | undefined): string {
  if (from !== undefined && to !== undefined) return `${from} to ${to}`
  if (to !== undefined) return `At most ${to}`
  return from === undefined ? '' : `At least ${from}`
}
