/** The fields of a package.json that a build needs. Fields of a wrong type count as absent, as they do for npm. */
export interface PackageJson {
  readonly name: string | undefined
  readonly version: string | undefined
  readonly main: string | undefined
  readonly scripts: ReadonlyMap<string, string>
  /** `engines.node`: a range of versions. */
  readonly nodeRange: string | undefined
  /** Names of the packages that the app needs at run time. */
  readonly dependencies: ReadonlySet<string>
  /** True when there is anything for npm to install. */
  readonly installs: boolean
  /** The field `packageManager`, such as `pnpm@10.1.0`. */
  readonly packageManager: { readonly name: string; readonly major: number } | undefined
  /** True when it has a `config` field, which npm hands to scripts as variables. */
  readonly hasConfig: boolean
}

type Fields = Readonly<Record<string, unknown>>

type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string }

/** Reads the text of a JSON file; a failure's message names the position. Never throws. */
export function readJson(name: string, text: string): Read<unknown> {
  // npm, too, tolerates a byte order mark.
  const json = text.replace(/^\uFEFF/, '')
  try {
    return { ok: true, value: JSON.parse(json) }
  } catch {
    return { ok: false, message: `${name} is not valid JSON: see ${describePosition(json, findJsonError(json))}.` }
  }
}

/** Reads the text of a package.json. Never throws. */
export function parsePackageJson(text: string): Read<PackageJson> {
  const read = readJson('package.json', text)
  if (!read.ok) return read
  const { value } = read
  if (!isFields(value)) return { ok: false, message: 'package.json must hold a JSON object.' }
  const { name, version, main, scripts, engines, config, packageManager } = value
  const { dependencies, devDependencies, optionalDependencies, workspaces } = value
  const { node } = fieldsOf(engines)
  const installed = [dependencies, devDependencies, optionalDependencies, workspaces]
  return {
    ok: true,
    value: {
      name: printableOf(name),
      version: printableOf(version),
      main: stringOf(main),
      scripts: new Map(
        Object.entries(fieldsOf(scripts)).filter((entry): entry is [string, string] => isText(entry[1])),
      ),
      nodeRange: stringOf(node),
      dependencies: new Set(Object.keys(fieldsOf(dependencies))),
      installs: installed.some((field) => typeof field === 'object' && field !== null && Object.keys(field).length > 0),
      packageManager: managerOf(packageManager),
      hasConfig: Object.keys(fieldsOf(config)).length > 0,
    },
  }
}

type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end' | 'nothing'

/**
 * The offset of the first token that the grammar of JSON (RFC 8259) does not allow there; the length of the text when
 * it ends too early. The engine's own messages give a position for some errors only.
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

/** Returns the tokens that may follow `token`; null when it was not allowed itself. `open` holds the open containers. */
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

function managerOf(value: unknown): PackageJson['packageManager'] {
  const [, name, major] = /^(npm|pnpm|yarn)@(\d{1,9})\b/.exec(stringOf(value) ?? '') ?? []
  return name === undefined ? undefined : { name, major: Number(major) }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {})
const isText = (value: unknown): value is string => typeof value === 'string'
const stringOf = (value: unknown): string | undefined => (isText(value) && value.trim() !== '' ? value : undefined)

/** Returns text that an environment variable can hold. */
const printableOf = (value: unknown): string | undefined => {
  const text = stringOf(value)
  return isText(text) && text.isWellFormed() && !/\p{Cc}/u.test(text) ? text : undefined
}
