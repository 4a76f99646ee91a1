/** Every beginning of a dotted name: of `a.b.c`, `a` and `a.b`. */
type Beginnings<Name extends string> = Name extends `${infer First}.${infer Rest}`
  ? First | `${First}.${Beginnings<Rest>}`
  : never

/** What can be listened to where these are the events: a name, all names below a beginning (`deployment.*`), or `*`. */
export type Pattern<Name extends string> = Name | `${Beginnings<Name>}.*` | '*'

/** The names that a pattern stands for. */
export type Matching<Name extends string, P extends string> = P extends '*'
  ? Name
  : P extends `${infer Beginning}.*`
    ? Extract<Name, `${Beginning}.${string}`>
    : Extract<Name, P>

/** Whether the pattern stands for the name. */
export function matches(pattern: string, name: string): boolean {
  if (pattern === '*') return true
  return pattern.endsWith('.*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern
}
