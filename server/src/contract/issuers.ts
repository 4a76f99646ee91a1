/** The kinds of issuers whose claims are known. `other` names them as GitHub or as GitLab does. */
export type IssuerKind = 'github' | 'gitlab' | 'forgejo' | 'buildkite' | 'circleci' | 'google' | 'other'

/** Known issuers by their addresses, as their documentation gives them. */
const known: readonly (readonly [RegExp, IssuerKind])[] = [
  [/^https:\/\/token\.actions\.githubusercontent\.com(\/|$)/, 'github'],
  // GitHub Enterprise Server.
  [/^https:\/\/[^/]+\/_services\/token$/, 'github'],
  [/^https:\/\/gitlab\.com$/, 'gitlab'],
  [/\/api\/actions$/, 'forgejo'],
  [/^https:\/\/agent\.buildkite\.com$/, 'buildkite'],
  [/^https:\/\/[^/]+\/org\/[^/]+$/, 'circleci'],
  [/^https:\/\/accounts\.google\.com$/, 'google'],
]

/** Returns the kind of an issuer by its address. */
export function issuerKind(issuer: string): IssuerKind {
  return known.find(([address]) => address.test(issuer))?.[1] ?? 'other'
}
