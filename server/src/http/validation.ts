import type { z } from 'zod'
import { type FieldProblem, invalidRequest } from '../contract/errors.ts'

/** An answer names no more than this many. */
const mostProblems = 20

/** Parses a request body; throws `invalid_request` that names every offending field by its path. */
export function parseBody(schema: z.ZodType, body: unknown): unknown {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.slice(0, mostProblems).map(problemOf)
  throw invalidRequest(problems[0] ?? { field: 'body', message: 'is not valid' }, ...problems.slice(1))
}

function problemOf(issue: z.core.$ZodIssue): FieldProblem {
  // A bad key of a record is reported at the record, with the reasons one level down.
  const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message
  return { field: issue.path.length === 0 ? 'body' : issue.path.map(String).join('.'), message }
}

/** The same for query parameters; each may be given once. */
export function parseQuery(
  schema: z.ZodObject,
  query: Readonly<Record<string, string | string[] | undefined>>,
): unknown {
  for (const name of Object.keys(schema.shape)) {
    if (Array.isArray(query[name])) throw invalidRequest({ field: name, message: 'must be given once' })
  }
  return parseBody(schema, { ...query })
}
