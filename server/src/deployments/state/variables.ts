import { type FieldProblem, invalidRequest } from '../../contract/errors.ts'
import { mostVariables } from '../../contract/resources/deployments.ts'

export type Variables = Readonly<Record<string, string>>

/**
 * Returns the variables of a new release: those that are given, and those of the latest release that are to be kept. Throws
 * `invalid_request` for names that it does not have, and when there are too many together. Code of another repository
 * gets none of them: otherwise everybody who may deploy an app could read its secrets.
 */
export function nextVariables(
  wanted: {
    readonly app: string
    readonly gitUrl: string
    readonly given: Variables
    readonly keep: readonly string[]
  },
  latest: { readonly gitUrl: string; readonly variables: Variables } | undefined,
): Variables {
  const { app, gitUrl, given, keep } = wanted
  if (keep.length > 0 && latest !== undefined && latest.gitUrl !== gitUrl) {
    const message = `stay with the git_url of the latest deployment, ${latest.gitUrl}: for another one, give them in env_vars`
    throw invalidRequest({ field: 'keep_env_vars', message })
  }
  const variables = latest?.variables ?? {}
  const problems = keep.flatMap((name, at): FieldProblem[] => {
    if (Object.hasOwn(given, name) || Object.hasOwn(variables, name)) return []
    const message = `the latest deployment of ${app} has no variable ${name}`
    return [{ field: `keep_env_vars.${at}`, message }]
  })
  const [first, ...others] = problems
  if (first !== undefined) throw invalidRequest(first, ...others)
  const kept = Object.entries(variables).filter(([name]) => keep.includes(name))
  const all = Object.fromEntries([...kept, ...Object.entries(given)])
  if (Object.keys(all).length > mostVariables) {
    const message = `must be, together with env_vars, at most ${mostVariables} variables`
    throw invalidRequest({ field: 'keep_env_vars', message })
  }
  return all
}
