/** The proper prefixes of a dotted name: for `a.b.c`, `a` and `a.b`. */
type Prefixes<Name extends string> = Name extends `${infer First}.${infer Rest}`
  ? First | `${First}.${Prefixes<Rest>}`
  : never

/** A pattern of event names: a name, all names with a prefix (`deployment.*`), or `*`. */
export type Pattern<Name extends string> = Name | `${Prefixes<Name>}.*` | '*'

/** The names that a pattern matches. */
export type Matching<Name extends string, P extends string> = P extends '*'
  ? Name
  : P extends `${infer Prefix}.*`
    ? Extract<Name, `${Prefix}.${string}`>
    : Extract<Name, P>

/** True when the pattern matches the name. */
export function matches(pattern: string, name: string): boolean {
  if (pattern === '*') return true
  return pattern.endsWith('.*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern
}
