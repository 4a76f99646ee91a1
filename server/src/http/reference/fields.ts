import { typeOf } from './examples.ts'
import type { Schema } from './schemas.ts'

export interface Field {
  /** A path such as `resources.deployments` or `projects[].id`. */
  readonly path: string
  readonly type: string
  readonly required: boolean
  /** The description, followed by the allowed values. */
  readonly description: string
  /** The allowed lengths or numbers. */
  readonly range: string
  /** The pattern and the default. */
  readonly details: string
}

/** Returns every field of a schema in one list, those of nested objects by their paths. */
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

/** Joins the sentences that are not empty. */
export function sentences(...all: readonly (string | undefined)[]): string {
  return all.filter((text) => text !== undefined && text !== '').join(' ')
}

function range(from: number | undefined, to: number | undefined): string {
  if (from !== undefined && to !== undefined) return `${from} to ${to}`
  if (to !== undefined) return `At most ${to}`
  return from === undefined ? '' : `At least ${from}`
}
