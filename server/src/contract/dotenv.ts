/** An invalid line of a dotenv file. The message may name the variable, but never quotes a value. */
export interface DotenvProblem {
  /** Counts from 1. For a value of several lines, the line of the name. */
  readonly line: number
  readonly message: string
}

/**
 * Reads the common form of `.env` files: lines of `NAME=VALUE`, each with an optional `export` before the name. Blank
 * lines and lines that start with `#` are skipped. An unquoted value is trimmed and ends at white space followed by
 * `#`. A value in quotes may span several lines. It is literal in single quotes and in backticks; in double quotes
 * `\n`, `\r`, `\t`, `\"` and `\\` are escapes. Variables are not expanded. Line ends within a value are read as `\n`.
 *
 * Returns the variables, or the first line that is wrong. A line that is not an assignment and a name that is set twice are
 * errors. The package `dotenv` and `util.parseEnv` read the same form, but skip malformed lines silently, let the last
 * of two equal names win, read `#ff0000` as a comment, and have no escape for a double quote.
 */
export function parseDotenv(
  text: string,
): { ok: true; variables: Record<string, string> } | { ok: false; line: number; message: string } {
  const { variables, problems } = readDotenv(text)
  const [first] = problems
  return first === undefined ? { ok: true, variables } : { ok: false, ...first }
}

/**
 * Reads like `parseDotenv`, but continues after a wrong line and returns all problems in addition to the valid
 * variables.
 */
export function readDotenv(text: string): {
  variables: Record<string, string>
  problems: readonly DotenvProblem[]
} {
  const normalized = text.replaceAll('\r\n', '\n')
  const found = new Map<string, { readonly value: string; readonly line: number }>()
  const problems: DotenvProblem[] = []
  let line = 1
  let start = 0
  while (start < normalized.length) {
    const { end, name, value, problem } = readLine(normalized, start)
    const earlier = name === undefined ? undefined : found.get(name)
    if (problem !== undefined) problems.push({ line, message: problem })
    else if (earlier !== undefined) problems.push({ line, message: `${name}: is set on line ${earlier.line} already` })
    else if (name !== undefined && value !== undefined) found.set(name, { value, line })
    line += normalized.slice(start, end).split('\n').length
    start = end + 1
  }
  return { variables: Object.fromEntries([...found].map(([name, { value }]) => [name, value])), problems }
}

/** An assignment or a problem; neither for a blank line or a comment. */
interface Read {
  /** The position of the line end after the assignment. A value of several lines ends on a later line. */
  readonly end: number
  readonly name?: string
  readonly value?: string
  readonly problem?: string
}

const validName = /^[A-Za-z_][A-Za-z0-9_]*$/

function readLine(text: string, start: number): Read {
  const end = lineEnd(text, start)
  const line = text.slice(start, end)
  if (/^\s*(?:#|$)/.test(line)) return { end }
  const equals = line.indexOf('=')
  if (equals < 0) {
    return { end, problem: 'has no "="; write NAME=VALUE, and put values of several lines in double quotes' }
  }
  const declared = line.slice(0, equals).trim()
  const name = declared.replace(/^export\s+/, '')
  // An invalid name may be part of a secret, such as a line of base64, so it is not quoted.
  if (!validName.test(name)) {
    return { end, problem: 'has no valid name before "="; use letters, digits and underscores, and no digit first' }
  }
  const rest = line.slice(equals + 1)
  const fromQuote = rest.trimStart()
  if (/^["'`]/.test(fromQuote)) return readQuoted(text, end - fromQuote.length, name)
  // A "#" belongs to the value unless white space precedes it, as in "#ff0000".
  const value = rest.replace(/\s#[\s\S]*$/, '').trim()
  return { end, name, value }
}

/** For each opening quote: the value with the closing quote, and the quote's name. */
const quotes: Readonly<Record<string, { readonly content: RegExp; readonly label: string }>> = {
  '"': { content: /([^"\\]*(?:\\[\s\S][^"\\]*)*)"/y, label: 'double quote' },
  "'": { content: /([^']*)'/y, label: 'single quote' },
  '`': { content: /([^`]*)`/y, label: 'backtick' },
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

function readQuoted(text: string, start: number, name: string): Read {
  const double = text[start] === '"'
  const { content, label } = quotes[text[start] ?? ''] as (typeof quotes)[string]
  content.lastIndex = start + 1
  const [closed, value] = content.exec(text) ?? []
  if (closed === undefined || value === undefined) {
    return { end: text.length, problem: `${name}: has no closing ${label}` }
  }
  const after = start + 1 + closed.length
  const end = lineEnd(text, after)
  if (!/^\s*(?:#[\s\S]*)?$/.test(text.slice(after, end))) {
    const remedy = double ? 'put a backslash before a double quote' : `use double quotes around a ${label}`
    return { end, problem: `${name}: has text after its closing quote; ${remedy} inside the value` }
  }
  return {
    end,
    name,
    value: double ? value.replace(/\\([nrt"\\])/g, (_, letter: string) => escapes[letter] ?? letter) : value,
  }
}

function lineEnd(text: string, from: number): number {
  const newline = text.indexOf('\n', from)
  return newline < 0 ? text.length : newline
}
