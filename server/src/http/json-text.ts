/** The API's own bodies are a few levels deep. The limit stops bodies made to exhaust the stack. */
const maxDepth = 32

/** A problem of a JSON text that `JSON.parse` accepts. `path` names the member. */
export type JsonTextProblem =
  | { readonly kind: 'duplicate'; readonly path: string }
  | { readonly kind: 'too deep'; readonly maxDepth: number }

interface Level {
  /** The keys of the object so far; `undefined` in an array. */
  readonly keys: Set<string> | undefined
  /** The key or array index of the value that is being read. */
  at: string | number
  /** True when the next string is a key. */
  keyNext: boolean
}

/**
 * Returns the first problem that `JSON.parse` does not report: a duplicate key, for which other parsers may take the
 * other value (RFC 8259 §4), or excessive nesting. `text` must be valid JSON.
 */
export function jsonTextProblem(text: string): JsonTextProblem | undefined {
  const levels: Level[] = []
  for (let at = 0; at < text.length; at++) {
    const level = levels.at(-1)
    switch (text[at]) {
      case '"': {
        const end = stringEnd(text, at)
        if (level?.keys !== undefined && level.keyNext) {
          level.at = JSON.parse(text.slice(at, end + 1)) as string
          level.keyNext = false
          if (level.keys.has(level.at)) return { kind: 'duplicate', path: pathOf(levels) }
          level.keys.add(level.at)
        }
        at = end
        break
      }
      case '{':
        levels.push({ keys: new Set(), at: '', keyNext: true })
        break
      case '[':
        levels.push({ keys: undefined, at: 0, keyNext: false })
        break
      case '}':
      case ']':
        levels.pop()
        break
      case ',':
        if (level !== undefined) {
          if (level.keys === undefined) level.at = Number(level.at) + 1
          else level.keyNext = true
        }
        break
    }
    if (levels.length > maxDepth) return { kind: 'too deep', maxDepth }
  }
  return undefined
}

function pathOf(levels: readonly Level[]): string {
  return levels.map((level) => String(level.at)).join('.')
}

/** Returns the index of the closing quote of the string that begins at `start`. */
function stringEnd(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    const character = text[at]
    if (character === '"' || character === undefined) return at
    if (character === '\\') at++
  }
}
