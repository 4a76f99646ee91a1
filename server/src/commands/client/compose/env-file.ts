import { readFile } from 'node:fs/promises'
import { CommandError } from '../command-error.ts'
import { interpolate } from './interpolate.ts'

/** The variables that values in a file may name. A name without a value gets the value of `outer`. */
export interface EnvFileScope {
  /** Variables from outside the file. They win over variables that the file sets. */
  readonly outer: Readonly<Record<string, string>>
  /** Is told each variable that has neither a value nor a default. */
  readonly missing: (name: string) => void
}

type Read = (text: string, variables: Map<string, string>, given: EnvFileScope & { readonly path: string }) => void

/** The formats of Compose. `raw` is the format of `docker run --env-file`. */
const formats: Readonly<Record<string, Read>> = { '': readCompose, raw: readRaw }

/**
 * Reads an `.env` or `env_file` as Compose does, not as `fairlead env import` does: values without quotes or in double quotes have
 * variables, the last of two equal names counts, `NAME: value` is an assignment, and a name alone has the value of `outer`.
 * Text after a closing quote, which Compose reads as another assignment, is an error. No message quotes a value.
 *
 * @param variables the variables of the files before this one; the function adds to them
 * @throws CommandError
 */
export async function readEnvFile(
  path: string,
  variables: Map<string, string>,
  { format = '', ...scope }: EnvFileScope & { readonly format?: string | undefined },
): Promise<void> {
  const read = Object.hasOwn(formats, format) ? formats[format] : undefined
  if (read === undefined) throw new CommandError(`${path} has the format ${format}, which is not known.`)
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${path} cannot be read: ${error.code}`)
  })
  read(text.replace(/^\uFEFF/, ''), variables, { ...scope, path })
}

/** White space but for the end of a line. */
const space = '[^\\S\\n]'
const statement = new RegExp(
  `(?<blank>${space}*(?:#.*)?(?:\\n|$))|${space}*(?:export${space}+)?(?<name>[\\p{L}\\p{N}_.\\[\\]-]+)${space}*(?:(?:[=:]${space}*(?<value>"(?:[^"\\\\]|\\\\[^])*"|'(?:[^'\\\\]|\\\\[^])*'|(?!["']).*))|(?=\\n|$))`,
  'uy',
)
const endOfLine = new RegExp(`${space}*(?:#.*)?(?:\\n|$)`, 'uy')

function readCompose(
  text: string,
  variables: Map<string, string>,
  given: EnvFileScope & { readonly path: string },
): void {
  const { outer, missing, path } = given
  let [at, line, counted] = [0, 1, 0]
  while (at < text.length) {
    line += text.slice(counted, at).split('\n').length - 1
    counted = at
    const place = `${path}, line ${line}`
    statement.lastIndex = at
    const found = statement.exec(text)
    if (found === null) throw new CommandError(`${place}: write NAME=value, with a closing quote for each opening one.`)
    at = statement.lastIndex
    const { blank, name = '', value } = found.groups as Readonly<Record<string, string | undefined>>
    if (blank !== undefined) continue
    if (value !== undefined) {
      const scope = { variables: { ...Object.fromEntries(variables), ...outer }, place: `${place}: ${name}`, missing }
      variables.set(
        name,
        valueIn(value, (part) => interpolate(part, scope)),
      )
    } else if (Object.hasOwn(outer, name)) variables.set(name, outer[name] ?? '')
    endOfLine.lastIndex = at
    if (!endOfLine.test(text)) throw new CommandError(`${place}: ${name} has text after its closing quote.`)
    at = endOfLine.lastIndex
  }
}

function valueIn(written: string, interpolated: (text: string) => string): string {
  const [quote = ''] = written
  if (quote !== '"' && quote !== "'") return interpolated(written.replace(/ #.*$/, '').trimEnd())
  // A backslash goes away before the quote alone.
  const content = written
    .slice(1, -1)
    .replace(/\\([\s\S])/g, (pair, letter: string) => (letter === quote ? quote : pair))
  return quote === "'" ? content : interpolated(content.replace(/\\(?:[abfnrtv$"\\]|0\d{0,3})/g, unescaped))
}

const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  $: '$$',
}

/** Returns what an escape stands for in double quotes: `\0` begins three octal digits. */
function unescaped(written: string): string {
  const rest = written.slice(1)
  if (!rest.startsWith('0')) return escapes[rest] ?? rest
  const digits = rest.slice(1)
  return /^[0-3][0-7]{2}$/.test(digits) ? String.fromCharCode(Number.parseInt(digits, 8)) : `\\${digits}`
}

function readRaw(
  text: string,
  variables: Map<string, string>,
  { outer, path }: EnvFileScope & { readonly path: string },
): void {
  for (const [at, line] of text.split(/\r?\n/).entries()) {
    const trimmed = line.trimStart()
    if (trimmed === '' || trimmed.startsWith('#')) continue
    const [, name = '', value] = /^([^=]*)(?:=(.*))?$/s.exec(trimmed) ?? []
    if (name === '' || /\s/.test(name)) throw new CommandError(`${path}, line ${at + 1}: write NAME=value.`)
    if (value !== undefined) variables.set(name, value)
    else if (Object.hasOwn(outer, name)) variables.set(name, outer[name] ?? '')
  }
}
