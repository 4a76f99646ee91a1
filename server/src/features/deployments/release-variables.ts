import { type FieldProblem, invalidRequest } from '../../contract/errors.ts'
import { type VariableKind, variablesProblem } from '../../contract/variables.ts'
import { isRepository } from './source-of.ts'

export type Variables = Readonly<Record<string, string>>

export interface AppVariable {
  readonly name: string
  readonly kind: VariableKind
  readonly value: string
  /** The source whose code may have it, as `sourceOf` names it; null while the source is unknown. */
  readonly source: string | null
  /** The linked database whose connection string is the value. */
  readonly databaseId?: string
}

export interface VariableOrigins {
  /** Variables of the deployment itself. They take precedence over the app's variables, and `apps.apply` keeps them. */
  readonly given: readonly string[]
  readonly plain: readonly string[]
  /** The ids of linked databases, by the names of the variables with their connection strings. */
  readonly linked?: Readonly<Record<string, string>>
  /** How often the password of a linked database was rotated since the release was made. Absent for 0. */
  readonly rotations?: number
}

export interface ReleaseVariables {
  readonly variables: Variables
  readonly origins: VariableOrigins
}

export function releaseVariables(ofApp: readonly AppVariable[], given: Variables): ReleaseVariables {
  const follows = ofApp.filter(({ name }) => !Object.hasOwn(given, name))
  const linked = Object.fromEntries(follows.flatMap(({ name, databaseId }) => (databaseId ? [[name, databaseId]] : [])))
  const plain = follows.filter(({ kind }) => kind === 'plain').map(({ name }) => name)
  return {
    variables: { ...Object.fromEntries(follows.map(({ name, value }) => [name, value])), ...given },
    origins: { given: Object.keys(given), plain, ...(Object.keys(linked).length > 0 && { linked }) },
  }
}

/** Throws `invalid_request` when a release has too many variables, or too large ones. */
export function assertFewVariables(variables: Variables): void {
  const problem = variablesProblem(variables)
  if (problem !== null)
    throw invalidRequest({ field: 'env_vars', message: `must be, together with the app's variables, ${problem}` })
}

/** Returns the release's variables that its deployment itself was given. */
export const givenOf = ({ variables, origins }: ReleaseVariables): Variables =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => origins.given.includes(name)))

export interface VariableChanges {
  readonly added: string[]
  readonly changed: string[]
  readonly removed: string[]
}

export function changesBetween(before: Variables, after: Variables): VariableChanges {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
  const [had, has] = [(name: string) => Object.hasOwn(before, name), (name: string) => Object.hasOwn(after, name)]
  return {
    added: names.filter((name) => !had(name)),
    changed: names.filter((name) => had(name) && has(name) && before[name] !== after[name]),
    removed: names.filter((name) => !has(name)),
  }
}

/**
 * Returns the variables of a new deployment itself: the variables of its request, and variables of the latest
 * deployment that the request keeps. Excludes variables that the latest release has from its app: they follow the app.
 * Throws `invalid_request` for names that the latest deployment does not have. Code of another repository gets no kept
 * variables: the app's owner gave them only to the previous repository. Uploaded sources count as one source, because
 * every user who may deploy an app decides what to upload.
 */
export function givenToNext(
  wanted: {
    readonly app: string
    /** The source, as `sourceOf` names it. */
    readonly source: string
    readonly given: Variables
    readonly keep: readonly string[]
  },
  latest: (ReleaseVariables & { readonly source: string }) | undefined,
): Variables {
  const { app, given, keep } = wanted
  if (keep.length > 0 && latest !== undefined && latest.source !== wanted.source) {
    const source = isRepository(latest.source)
      ? `the git_url of the latest deployment, ${latest.source}`
      : latest.source
    const message = `stay with ${source}: for another source, give them in env_vars`
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
  const kept = Object.entries(latest === undefined ? {} : givenOf(latest)).filter(([name]) => keep.includes(name))
  const all = Object.fromEntries([...kept, ...Object.entries(given)])
  const problem = variablesProblem(all)
  if (problem !== null)
    throw invalidRequest({ field: 'keep_env_vars', message: `must be, together with env_vars, ${problem}` })
  return all
}
