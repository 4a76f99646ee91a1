/** Deeper bodies are nobody's: what the API takes is at most a few levels deep. */
const deepest = 32

/** What is wrong with a JSON text although it parses, told by the path of the member. */
export type JsonTextProblem =
  | { readonly kind: 'duplicate'; readonly path: string }
  | { readonly kind: 'too deep'; readonly deepest: number }

interface Level {
  /** The keys so far; `undefined` in an array. */
  readonly keys: Set<string> | undefined
  /** The key, or the place in an array, of what is being read. */
  at: string | number
  /** Whether the next string is a key. */
  keyNext: boolean
}

/**
 * Looks for what `JSON.parse` lets pass: the same key twice in an object, of which other readers may take the other
 * value (RFC 8259 §4), and nesting that nothing here needs. `text` must be valid JSON.
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
    if (levels.length > deepest) return { kind: 'too deep', deepest }
  }
  return undefined
}

function pathOf(levels: readonly Level[]): string {
  return levels.map((level) => String(level.at)).join('.')
}

/** Where the string that begins at `start` has its closing quote. */
function stringEnd(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    const character = text[at]
    if (character === '"' || character === undefined) return at
    if (character === '\\') at++
  }
}
