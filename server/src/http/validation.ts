import { z } from 'zod'
import { type FieldProblem, invalidRequest } from '../contract/errors.ts'

const maxProblems = 20

/** Parses a request body. Throws an `invalid_request` that names every wrong field by its path. */
export function parseBody(schema: z.ZodType, body: unknown): unknown {
  const parsed = schema.safeParse(body)
  const found = parsed.success ? [] : parsed.error.issues.map(problemOf)
  const reported = new Set(found.map(({ field }) => field))
  const problems = [...found, ...nulProblems(schema, body).filter(({ field }) => !reported.has(field))]
  const [first, ...others] = problems.slice(0, maxProblems)
  if (first !== undefined) throw invalidRequest(first, ...others)
  return parsed.data
}

function problemOf(issue: z.core.$ZodIssue): FieldProblem {
  // For an invalid key of a record, Zod nests the reasons.
  const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message
  return { field: issue.path.length === 0 ? 'body' : issue.path.map(String).join('.'), message }
}

/** Returns the declared fields that contain a NUL character, which PostgreSQL cannot store. */
function nulProblems(schema: z.ZodType, body: unknown): FieldProblem[] {
  if (typeof body !== 'object' || body === null) return []
  const known = schema instanceof z.ZodObject ? schema.shape : undefined
  const members = Object.entries(body).filter(([name]) => known === undefined || Object.hasOwn(known, name))
  return members.flatMap(([name, value]) => fieldsWithNul(value, name)).map((field) => ({ field, message: nulMessage }))
}

const nulMessage = 'must not contain a NUL character'

// The recursion is bounded: the reader of the body refuses deep nesting.
function fieldsWithNul(value: unknown, field: string): string[] {
  if (typeof value === 'string') return value.includes('\0') ? [field] : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [
    ...(name.includes('\0') ? [field] : []),
    ...fieldsWithNul(member, `${field}.${name}`),
  ])
}

type Query = Readonly<Record<string, string | string[]>>

/**
 * Returns the parameters of a query by name; a repeated parameter has a list. Koa's `ctx.query` is never used: its time
 * grows with the square of the number of parameters, to seven seconds for the most that fit into a request.
 */
export function queryOf({ querystring }: { readonly querystring: string }): Query {
  const found = new Map<string, string | string[]>()
  for (const [name, value] of new URLSearchParams(querystring)) {
    const before = found.get(name)
    if (before === undefined) found.set(name, value)
    else if (Array.isArray(before)) before.push(value)
    else found.set(name, [before, value])
  }
  return Object.fromEntries(found)
}

/** Parses query parameters. Throws `invalid_request`, also for a repeated parameter. */
export function parseQuery(schema: z.ZodObject, query: Query): unknown {
  const repeated = Object.keys(schema.shape).filter((name) => Array.isArray(query[name]))
  const [first, ...others] = repeated.map((field) => ({ field, message: 'must be given once' }))
  if (first !== undefined) throw invalidRequest(first, ...others)
  return parseBody(schema, { ...query })
}
