/** The variables of an app by name. */
export type Variables = Readonly<Record<string, string>>

/** What was read, or everything that is wrong with it. Problems name lines and variables, never a value. */
export type VariablesRead = { readonly value: Variables } | { readonly problems: readonly string[] }

const validName = /^[A-Za-z_][A-Za-z0-9_]*$/
const nameRule = 'a name is letters, digits and underscores and starts with no digit'

/** Reads the input `env-vars`: a JSON object of strings, or lines of NAME=VALUE. */
export function parseVariables(text: string): VariablesRead {
  return text.trimStart().startsWith('{') ? parseJson(text) : parseLines(text)
}

function parseJson(text: string): VariablesRead {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    // The engine's message quotes the text, which may hold a secret: only the line is taken from it.
    const line = /\(line (\d+) column \d+\)$/.exec(String(error))?.[1]
    return { problems: [`${line === undefined ? '' : `line ${line}: `}is not valid JSON`] }
  }
  // Valid JSON that starts with a brace is an object.
  const object = parsed as Record<string, unknown>
  const problems = Object.entries(object).flatMap(([name, value]) => {
    if (!validName.test(name)) return [`${JSON.stringify(name)}: ${nameRule}`]
    return typeof value === 'string' ? [] : [`${name}: must be a string; write the value in double quotes`]
  })
  return problems.length > 0 ? { problems } : { value: object as Variables }
}

/**
 * The usual form of `.env` files. Blank lines and lines that start with `#` are skipped. A value is taken as it is,
 * trimmed, up to white space followed by `#`; in quotes, over several lines if need be: in single ones literally, in
 * double ones with the escapes `\n`, `\r`, `\t`, `\"` and `\\`. Nothing is substituted. `util.parseEnv` and the package
 * `dotenv` read the same form, but leave out what they cannot read without a word, cut `#ff0000` to nothing, and know no
 * escaped quote.
 */
function parseLines(text: string): VariablesRead {
  const lines = text.split(/\r?\n/)
  const problems: string[] = []
  const found = new Map<string, { readonly value: string; readonly line: number }>()

  for (let index = 0; index < lines.length; index++) {
    const line = (lines[index] ?? '').trim()
    if (line === '' || line.startsWith('#')) continue
    const number = index + 1
    const equals = line.indexOf('=')
    const name = line.slice(0, equals).trimEnd()
    if (equals < 0) {
      problems.push(`line ${number}: has no "="; write NAME=VALUE, and values of several lines in double quotes`)
      continue
    }
    // What stands before the "=" may be the middle of a secret, so it is named only when it is a name.
    if (!validName.test(name)) {
      problems.push(`line ${number}: has no valid name before "="; ${nameRule}`)
      continue
    }
    const start = (lines[index] ?? '').trimStart().slice(equals + 1)
    const read = /^\s*["']/.test(start) ? readQuoted([start.trimStart(), ...lines.slice(number)]) : readPlain(start)
    const earlier = found.get(name)
    if ('problem' in read) problems.push(`line ${number}: ${name}: ${read.problem}`)
    else if (earlier !== undefined) problems.push(`line ${number}: ${name}: is set on line ${earlier.line} already`)
    else found.set(name, { value: read.value, line: number })
    index += read.further
  }
  if (problems.length > 0) return { problems }
  return { value: Object.fromEntries([...found].map(([name, { value }]) => [name, value])) }
}

/** A value, with the number of lines that it takes beyond its first. */
type ValueRead = ({ readonly value: string } | { readonly problem: string }) & { readonly further: number }

const trailing = /^\s*(?:#.*)?$/

function readPlain(text: string): ValueRead {
  // A "#" without white space before it belongs to the value, such as a colour.
  return { value: text.replace(/\s#.*$/, '').trim(), further: 0 }
}

/** `lines` begin with the opening quote. */
function readQuoted(lines: readonly string[]): ValueRead {
  const text = lines.join('\n')
  const double = text.startsWith('"')
  const [content = ''] = (double ? /^[^"\\]*(?:\\[\s\S][^"\\]*)*/ : /^[^']*/).exec(text.slice(1)) ?? []
  if (text[content.length + 1] !== text[0]) {
    return { problem: `has no closing ${double ? 'double' : 'single'} quote`, further: lines.length - 1 }
  }
  const further = content.split('\n').length - 1
  const [rest = ''] = text.slice(content.length + 2).split('\n', 1)
  if (!trailing.test(rest)) {
    const how = double ? 'put a backslash before a double quote' : 'use double quotes around a single quote'
    return { problem: `has text after its closing quote; ${how} inside of the value`, further }
  }
  const value = content.replace(/\\([nrt"\\])/g, (_, letter: string) => escapes[letter] ?? letter)
  return { value: double ? value : content, further }
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

// Values that many apps are given and that are no secret; masking them would blank them out of every later log line.
const ordinary: readonly string[] = ['production', 'development', 'building', 'canceled', 'superseded']

/**
 * What the runner shall hide of the variables' values, line by line: it hides each line of a text by itself, and a
 * short one, such as the brace that opens a JSON value, would ruin the log. Only what is longer than 7 characters
 * counts, and nothing that is part of a `spared` text, because outputs with a hidden part do not reach other jobs.
 */
export function secretsIn(variables: Variables, spared: readonly string[]): readonly string[] {
  const lines = Object.values(variables).flatMap((value) => value.split(/[\r\n]+/).map((line) => line.trim()))
  const secrets = lines.filter((line) => {
    return line.length > 7 && !ordinary.includes(line) && !spared.some((text) => text.includes(line))
  })
  return [...new Set(secrets)]
}
