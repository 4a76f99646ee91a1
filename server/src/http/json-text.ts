/** The API's own bodies are a few levels deep. The limit stops bodies made to exhaust the stack. */
const maxDepth = 32
/** The API's own bodies have hundreds of values. Each takes time to parse and to validate, in which nobody else is answered. */
const maxValues = 2_000
/** The longest text of the API is a dotenv file. A text counts as it is written, with its escapes. */
const maxTextLength = 200_000

/** A reason to refuse a JSON text. `field` is the path of the member, or `body`. */
export interface JsonTextProblem {
  readonly field: string
  readonly message: string
}

interface Level {
  /** The keys of the object so far; `undefined` in an array. */
  readonly keys: Set<string> | undefined
  /** The key or array index of the value that is being read. */
  at: string | number
  /** True when the next string is a key. */
  keyNext: boolean
}

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

/**
 * Returns the first problem that `JSON.parse` does not report: a duplicate key, for which other parsers may take the other value
 * (RFC 8259 §4), `__proto__`, excessive nesting, too many values, or a text that is too long. What it returns for a text that is no JSON says nothing.
 */
export function jsonTextProblem(text: string): JsonTextProblem | undefined {
  const levels: Level[] = []
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const level = levels.at(-1)
    switch (text.charCodeAt(at)) {
      case quote: {
        const end = stringEnd(text, at)
        if (end - at > maxTextLength) {
          return { field: 'body', message: `must have no text of more than ${maxTextLength} characters` }
        }
        if (level?.keys !== undefined && level.keyNext) {
          const key = stringIn(text.slice(at, end + 1))
          if (key === undefined) return undefined
          level.at = key
          level.keyNext = false
          if (level.keys.has(key)) return { field: pathOf(levels), message: 'must be given once' }
          if (key === '__proto__') return { field: 'body', message: 'must not have a member named __proto__' }
          level.keys.add(key)
        }
        at = end
        break
      }
      case openBrace:
        levels.push({ keys: new Set(), at: '', keyNext: true })
        values++
        break
      case openBracket:
        levels.push({ keys: undefined, at: 0, keyNext: false })
        values++
        break
      case closeBrace:
      case closeBracket:
        levels.pop()
        break
      case comma:
        values++
        if (level !== undefined) {
          if (level.keys === undefined) level.at = Number(level.at) + 1
          else level.keyNext = true
        }
        break
    }
    if (levels.length > maxDepth) return { field: 'body', message: `must be nested at most ${maxDepth} levels deep` }
    if (values > maxValues) return { field: 'body', message: `must have at most ${maxValues} values` }
  }
  return undefined
}

function pathOf(levels: readonly Level[]): string {
  return levels.map((level) => String(level.at)).join('.')
}

/** Returns the index of the closing quote of the string that begins at `start`. */
function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const character = text.charCodeAt(at)
    if (character === quote) return at
    if (character === backslash) at++
  }
  return text.length
}

function stringIn(text: string): string | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
