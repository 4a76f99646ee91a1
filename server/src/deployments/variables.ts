import { type FieldProblem, invalidRequest } from '../contract/errors.ts'
import { mostVariables } from '../contract/resources/deployments.ts'

export type Variables = Readonly<Record<string, string>>

/**
 * The variables of a new release: those that are given, and of the release before it those that are to be kept. Throws
 * `invalid_request` for names that it does not have, and when there are too many together.
 */
export function nextVariables(
  given: Variables,
  keep: readonly string[],
  before: { readonly app: string; readonly variables: Variables },
): Variables {
  const problems = keep.flatMap((name, at): FieldProblem[] => {
    if (Object.hasOwn(given, name) || Object.hasOwn(before.variables, name)) return []
    const message = `the latest deployment of ${before.app} has no variable ${name}`
    return [{ field: `keep_env_vars.${at}`, message }]
  })
  const [first, ...others] = problems
  if (first !== undefined) throw invalidRequest(first, ...others)
  const kept = Object.entries(before.variables).filter(([name]) => keep.includes(name))
  const all = Object.fromEntries([...kept, ...Object.entries(given)])
  if (Object.keys(all).length > mostVariables) {
    const message = `must be, together with env_vars, at most ${mostVariables} variables`
    throw invalidRequest({ field: 'keep_env_vars', message })
  }
  return all
}
