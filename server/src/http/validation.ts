import { z } from 'zod'
import { type FieldProblem, invalidRequest } from '../contract/errors.ts'

/** An answer names no more than this many. */
const mostProblems = 20

/** Parses a request body; throws `invalid_request` that names every offending field by its path. */
export function parseBody(schema: z.ZodType, body: unknown): unknown {
  const parsed = schema.safeParse(body)
  const found = parsed.success ? [] : parsed.error.issues.map(problemOf)
  const told = new Set(found.map(({ field }) => field))
  const problems = [...found, ...nulProblems(schema, body).filter(({ field }) => !told.has(field))]
  const [first, ...others] = problems.slice(0, mostProblems)
  if (first !== undefined) throw invalidRequest(first, ...others)
  return parsed.data
}

function problemOf(issue: z.core.$ZodIssue): FieldProblem {
  // A bad key of a record is reported at the record, with the reasons one level down.
  const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message
  return { field: issue.path.length === 0 ? 'body' : issue.path.map(String).join('.'), message }
}

/** Strings that PostgreSQL cannot keep, in what the schema knows of a body. */
function nulProblems(schema: z.ZodType, body: unknown): FieldProblem[] {
  if (typeof body !== 'object' || body === null) return []
  const known = schema instanceof z.ZodObject ? schema.shape : undefined
  const members = Object.entries(body).filter(([name]) => known === undefined || Object.hasOwn(known, name))
  return members.flatMap(([name, value]) => fieldsWithNul(value, name)).map((field) => ({ field, message: nulMessage }))
}

const nulMessage = 'must not contain a NUL character'

// As deep as a body may be: the reader of bodies has a limit.
function fieldsWithNul(value: unknown, field: string): string[] {
  if (typeof value === 'string') return value.includes('\0') ? [field] : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [
    ...(name.includes('\0') ? [field] : []),
    ...fieldsWithNul(member, `${field}.${name}`),
  ])
}

/** The same for query parameters; each may be given once. */
export function parseQuery(
  schema: z.ZodObject,
  query: Readonly<Record<string, string | string[] | undefined>>,
): unknown {
  const twice = Object.keys(schema.shape).filter((name) => Array.isArray(query[name]))
  const [first, ...others] = twice.map((field) => ({ field, message: 'must be given once' }))
  if (first !== undefined) throw invalidRequest(first, ...others)
  return parseBody(schema, { ...query })
}
