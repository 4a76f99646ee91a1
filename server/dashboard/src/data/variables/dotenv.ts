/** One variable of an app. */
export interface Variable {
  readonly name: string
  readonly value: string
}

const assignment =
  /^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?:"((?:\\[\s\S]|[^"\\])*)"|'([^']*)'|([^\n\r]*?))[ \t]*(?:#[^\n\r]*)?$/gm

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

/**
 * Reads lines of NAME=value as dotenv files have them: quotes of both kinds, also over several lines; escapes in double
 * ones; comments. What is no assignment is left out. Of a name that comes twice the last value counts.
 */
export function parseDotenv(text: string): Variable[] {
  const found = new Map<string, string>()
  for (const [, name = '', double, single, bare] of text.replaceAll('\r\n', '\n').matchAll(assignment)) {
    const value =
      double !== undefined
        ? double.replace(/\\([\s\S])/g, (_, character: string) => escapes[character] ?? character)
        : (single ?? (bare ?? '').replace(/[ \t]+#.*$/, '').trim())
    found.set(name, value)
  }
  return [...found].map(([name, value]) => ({ name, value }))
}
