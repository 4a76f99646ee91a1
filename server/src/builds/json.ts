export type Fields = Readonly<Record<string, unknown>>

/** The message is for the owner of the file. */
export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string }

/** Reads the text of a JSON file; a failure's message names the position. Never throws. */
export function readJson(name: string, text: string): Read<unknown> {
  // npm also accepts a byte order mark.
  const json = text.replace(/^\uFEFF/, '')
  try {
    return { ok: true, value: JSON.parse(json) }
  } catch {
    return { ok: false, message: `${name} is not valid JSON: see ${describePosition(json, findJsonError(json))}.` }
  }
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the fields of an object; empty for any other value. */
export const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {})

type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end' | 'nothing'

/**
 * Returns the offset of the first token that RFC 8259 does not allow; the length of the text if it ends too early. The
 * engine's messages give a position only for some errors.
 */
export function findJsonError(text: string): number {
  const tokens =
    /[ \t\n\r]*(?:([{}[\],:])|("(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y
  const open: string[] = []
  let expected: Expected = 'value'
  let end = 0
  for (;;) {
    tokens.lastIndex = end
    const match = tokens.exec(text)
    const start = end + (/^[ \t\n\r]*/.exec(text.slice(end))?.[0].length ?? 0)
    if (match === null) return start
    const next = step(expected, match[1] ?? (match[2] === undefined ? 'literal' : 'string'), open)
    if (next === null) return start
    expected = next
    end = tokens.lastIndex
  }
}

/** Returns the tokens that may follow; null if `token` was not allowed. `open` holds the open containers. */
function step(expected: Expected, token: string, open: string[]): Expected | null {
  const afterValue = (): Expected => (open.length === 0 ? 'nothing' : 'comma or end')
  if (expected === 'nothing') return null
  if (expected === 'colon') return token === ':' ? 'value' : null
  if (expected === 'comma or end') {
    if (token === ',') return open.at(-1) === '{' ? 'key' : 'value'
    if (token !== (open.at(-1) === '{' ? '}' : ']')) return null
    open.pop()
    return afterValue()
  }
  if ((expected === 'key or }' && token === '}') || (expected === 'value or ]' && token === ']')) {
    open.pop()
    return afterValue()
  }
  if (expected === 'key' || expected === 'key or }') return token === 'string' ? 'colon' : null
  if (token === '{' || token === '[') {
    open.push(token)
    return token === '{' ? 'key or }' : 'value or ]'
  }
  return token === 'string' || token === 'literal' ? afterValue() : null
}

function describePosition(text: string, offset: number): string {
  const lines = text.slice(0, offset).split('\n')
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`
}
