import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parseDocument, visit } from 'yaml'
import { type ZodError, z } from 'zod'
import { CommandError } from '../command-error.ts'

const fileNames = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml']

/**
 * The most copies by YAML anchors and merged keys. Large real files have hundreds; a file that expands without end has
 * more.
 */
const mostCopies = 10_000

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()])
const words = z.union([z.string(), z.array(z.string())])

/** A value with variables is a string in YAML. */
const count = z.union([
  z.int().nonnegative(),
  z
    .string()
    .regex(/^\d{1,9}$/)
    .transform(Number),
])
const flag = z.union([z.boolean(), z.string().transform((text) => text.toLowerCase() === 'true')])

const mount = z.union([
  z.string(),
  z.looseObject({
    type: z.string().optional(),
    source: z.string().optional(),
    target: z.string(),
    read_only: flag.optional(),
  }),
])

const service = z.looseObject({
  image: z.string().optional(),
  build: z
    .union([
      z.string(),
      z.looseObject({
        context: z.string().default('.'),
        dockerfile: z.string().optional(),
        target: z.string().optional(),
      }),
    ])
    .optional(),
  environment: z.union([z.array(z.string()), z.record(z.string(), scalar)]).optional(),
  env_file: z
    .union([
      z.string(),
      z.array(
        z.union([
          z.string(),
          z.looseObject({ path: z.string(), required: flag.optional(), format: z.string().optional() }),
        ]),
      ),
    ])
    .optional(),
  command: words.nullable().optional(),
  entrypoint: words.nullable().optional(),
  volumes: z.array(mount).optional(),
  depends_on: z
    .union([z.array(z.string()), z.record(z.string(), z.looseObject({ condition: z.string().optional() }).nullable())])
    .optional(),
  ports: z
    .array(
      z.union([
        z.int(),
        z.string(),
        z.looseObject({ host_ip: z.string().optional(), protocol: z.string().optional() }),
      ]),
    )
    .optional(),
  restart: z.union([z.string(), z.boolean()]).optional(),
  read_only: flag.optional(),
  profiles: z.array(z.string()).optional(),
  extends: z.unknown().optional(),
  scale: count.optional(),
  deploy: z.looseObject({ replicas: count.optional() }).optional(),
})

const composeFile = z.looseObject(
  {
    services: z.record(z.string(), service, { error: 'must be the services by their names' }),
    volumes: z.record(z.string(), z.looseObject({}).nullable()).nullish(),
  },
  { error: 'it has no services' },
)

export type Service = z.infer<typeof service>

export interface ComposeFile {
  /** The folder of the file. Paths in the file are relative to it. */
  readonly folder: string
  readonly services: Readonly<Record<string, Service>>
  readonly environments: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly otherKeys: readonly string[]
  readonly volumes: Readonly<Record<string, Readonly<Record<string, unknown>> | null>>
  readonly missing: readonly string[]
}

/**
 * Reads a compose file, or the compose file of a folder. Variables come from the environment and from the `.env` beside
 * the file.
 *
 * @throws CommandError
 */
export async function readComposeFile(
  given: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ComposeFile> {
  const path = findFile(given)
  const folder = dirname(path)
  const names = new Set<string>()
  const missing = (name: string) => void names.add(name)
  const set = definedOf(environment)
  const variables = { ...(await dotenvBeside(folder, { outer: set, missing })), ...set }
  const parsed = parseYaml(await readFile(path, 'utf8'), path)
  const read = composeFile.safeParse(interpolateAll(parsed, { variables, place: '', missing }))
  if (!read.success) throw new CommandError(`${path} is not a readable compose file: ${firstProblem(read.error)}`)
  const { services, volumes, ...others } = read.data
  const environments: Record<string, Record<string, string>> = {}
  for (const [name, each] of Object.entries(services)) {
    const own = fromEnvironment(each, variables)
    // Values in `env_file` may name variables of the environment, which take precedence.
    const ofFiles = await fromFiles(folder, each, { outer: { ...own, ...variables }, missing })
    environments[name] = { ...ofFiles, ...own }
  }
  const otherKeys = Object.keys(others).filter((key) => !['version', 'name'].includes(key) && !key.startsWith('x-'))
  return { folder, services, environments, otherKeys, volumes: volumes ?? {}, missing: [...names] }
}

function findFile(given: string): string {
  const path = resolve(given)
  if (!existsSync(path)) throw new CommandError(`There is no file or folder ${given}.`)
  if (!statSync(path).isDirectory()) return path
  const found = fileNames.map((name) => join(path, name)).find((each) => existsSync(each))
  if (found === undefined) throw new CommandError(`The folder ${given} has no ${fileNames.join(', ')}.`)
  return found
}

function parseYaml(text: string, path: string): unknown {
  try {
    const document = parseDocument(text, { merge: true })
    // Warnings come from unknown tags, such as !reset, which changes a file that Compose has read before.
    for (const problem of [...document.errors, ...document.warnings]) throw problem
    // Numbers stay as written: a parsed number loses digits beyond 2⁵³, and zeros.
    visit(document, {
      Scalar(_, node) {
        if (typeof node.value === 'number' || typeof node.value === 'bigint')
          node.value = node.source ?? String(node.value)
      },
    })
    return document.toJS({ maxAliasCount: mostCopies })
  } catch (error) {
    throw new CommandError(`${path} is not readable YAML: ${(error as Error).message}`)
  }
}

/** Interpolates values but not keys, as Compose does. */
function interpolateAll(value: unknown, scope: Scope): unknown {
  if (typeof value === 'string') return interpolate(value, scope)
  if (typeof value !== 'object' || value === null) return value
  const inner = (key: string) => {
    const place = scope.place === '' ? key : `${scope.place}.${key}`
    if (key === '__proto__') throw new CommandError(`${place}: nothing can have this name. Choose another one.`)
    return { ...scope, place }
  }
  if (Array.isArray(value)) return value.map((each, at) => interpolateAll(each, inner(String(at))))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, interpolateAll(each, inner(key))]))
}

function firstProblem({ issues }: ZodError): string {
  const [first] = issues
  return first === undefined
    ? ''
    : [...(first.path.length === 0 ? [] : [first.path.join('.')]), first.message].join(': ')
}

async function dotenvBeside(folder: string, scope: EnvFileScope): Promise<Record<string, string>> {
  const variables = new Map<string, string>()
  const path = join(folder, '.env')
  if (existsSync(path)) await readEnvFile(path, variables, scope)
  return Object.fromEntries(variables)
}

interface EnvFile {
  readonly path: string
  readonly required?: boolean | undefined
  readonly format?: string | undefined
}

async function fromFiles(
  folder: string,
  { env_file = [] }: Service,
  scope: EnvFileScope,
): Promise<Record<string, string>> {
  const variables = new Map<string, string>()
  for (const each of typeof env_file === 'string' ? [env_file] : env_file) {
    const { path, required = true, format }: EnvFile = typeof each === 'string' ? { path: each } : each
    const file = resolve(folder, path)
    if (required || existsSync(file)) await readEnvFile(file, variables, { ...scope, format })
  }
  return Object.fromEntries(variables)
}

/**
 * A variable without a value gets its value from the environment, and is absent when the environment does not set it.
 */
function fromEnvironment(
  { environment = [] }: Service,
  outer: Readonly<Record<string, string>>,
): Record<string, string> {
  const pairs = Array.isArray(environment)
    ? environment.map((text): [string, string | undefined] => {
        const [name = '', ...value] = text.split('=')
        return [name, value.length === 0 ? undefined : value.join('=')]
      })
    : Object.entries(environment).map(([name, value]): [string, string | undefined] => [
        name,
        value === null ? undefined : String(value),
      ])
  return definedOf(
    Object.fromEntries(
      pairs.map(([name, value]) => [name, value ?? (Object.hasOwn(outer, name) ? outer[name] : undefined)]),
    ),
  )
}

export const dependenciesOf = ({ depends_on: services = [] }: Service): readonly string[] =>
  Array.isArray(services) ? services : Object.keys(services)

/** Returns the names of the services that must end before another service starts, such as migrations. */
export const endingServices = (services: ComposeFile['services']): readonly string[] =>
  Object.values(services).flatMap(({ depends_on: needed = [] }) =>
    Array.isArray(needed)
      ? []
      : Object.keys(needed).filter((name) => needed[name]?.condition === 'service_completed_successfully'),
  )

const definedOf = (variables: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).filter((pair): pair is [string, string] => pair[1] !== undefined))

interface Scope {
  readonly variables: Readonly<Record<string, string>>
  readonly place: string
  readonly missing: (name: string) => void
}

/** Matches the use of a variable. In braces, the match ends after the name and the operator. */
const use = /\$(?:(?<escaped>\$)|(?<plain>[A-Za-z_]\w*)|\{(?:(?<name>[A-Za-z_]\w*)(?<operator>:?[-?+])?)?)/g

/**
 * Puts variables into a value by the Compose specification: `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`,
 * `${NAME:?message}`, `${NAME?message}`, `${NAME:+other}`, `${NAME+other}`. `$$`, and a `$` before anything else, is
 * one `$`. The text after the operator may have variables, too. A variable without a value and a default is empty.
 * Throws a `CommandError` for a required variable, and for any other `${`.
 */
export function interpolate(text: string, scope: Scope): string {
  let result = ''
  let at = 0
  for (const found of text.matchAll(use)) {
    if (found.index < at) continue
    const { escaped, plain, name, operator = '' } = found.groups as Record<string, string | undefined>
    result += text.slice(at, found.index)
    at = found.index + found[0].length
    if (escaped !== undefined) result += '$'
    else if (plain !== undefined) result += substituted(plain, '', '', scope)
    else if (name === undefined) throw misused(scope)
    else {
      const end = endOfBraces(text, at)
      if (end === null || (operator === '' && end !== at)) throw misused(scope)
      result += substituted(name, operator, text.slice(at, end), scope)
      at = end + 1
    }
  }
  return result + text.slice(at)
}

/** Returns the position of the brace that closes an opened `${`; null when no brace closes it. */
function endOfBraces(text: string, from: number): number | null {
  let open = 1
  for (let at = from; at < text.length; at++) {
    if (text.startsWith('${', at)) open++
    if (text[at] === '}' && --open === 0) return at
  }
  return null
}

function substituted(name: string, operator: string, word: string, scope: Scope): string {
  const { variables, place, missing } = scope
  const value = Object.hasOwn(variables, name) ? variables[name] : undefined
  const isGiven = value !== undefined && (value !== '' || !operator.startsWith(':'))
  if (operator.endsWith('+')) return isGiven ? interpolate(word, scope) : ''
  if (isGiven) return value
  if (operator.endsWith('-')) return interpolate(word, scope)
  if (operator.endsWith('?'))
    throw new CommandError(`${place} needs the variable ${name}${word === '' ? '' : `: ${word}`}`)
  missing(name)
  return ''
}

const misused = ({ place }: Scope): CommandError =>
  new CommandError(`${place} has $\{ without a name and its }: write $$ for the character $ itself.`)

/** The variables that values in a file may name. A name without a value gets the value from `outer`. */
interface EnvFileScope {
  readonly outer: Readonly<Record<string, string>>
  readonly missing: (name: string) => void
}

type Read = (text: string, variables: Map<string, string>, given: EnvFileScope & { readonly path: string }) => void

/** The formats of Compose. `raw` is the format of `docker run --env-file`. */
const formats: Readonly<Record<string, Read>> = { '': readCompose, raw: readRaw }

/**
 * Reads an `env_file` as Compose does, not as `fairlead env import` does: values without quotes or in double quotes
 * have variables, the last of two equal names counts, `NAME: value` is an assignment, and a name alone has the value of
 * `outer`. Text after a closing quote, which Compose reads as another assignment, is an error. No message quotes a
 * value.
 *
 * @param variables from earlier files; the function adds to them
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
  // Only a backslash before the quote is an escape.
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

/** Returns the characters of an escape in double quotes. `\0` begins three octal digits. */
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
