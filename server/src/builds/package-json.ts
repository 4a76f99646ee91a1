import { fieldsOf, isFields, type Read, readJson } from './json.ts'
import type { SourceTree } from './tree.ts'

/** The fields of a package.json that a build needs. Fields of a wrong type count as absent, as in npm. */
export interface PackageJson {
  readonly name: string | undefined
  readonly version: string | undefined
  readonly main: string | undefined
  /** The file that bundlers and Bun start from. */
  readonly module: string | undefined
  readonly scripts: ReadonlyMap<string, string>
  /** Versions and ranges from `engines` and `volta`, by the name of a program. */
  readonly engines: ReadonlyMap<string, string>
  readonly volta: ReadonlyMap<string, string>
  /** The field `devEngines`, if it names one program for each entry. */
  readonly devEngines: { readonly runtime: NamedRange | undefined; readonly packageManager: NamedRange | undefined }
  readonly dependencies: ReadonlySet<string>
  readonly devDependencies: ReadonlySet<string>
  readonly installs: boolean
  /** The field `packageManager`, such as `pnpm@10.1.0`. */
  readonly packageManager: PackageManagerField | undefined
  /** True when the file has a `config` field, which npm passes to scripts as variables. */
  readonly hasConfig: boolean
}

export interface NamedRange {
  readonly name: string
  readonly version: string
}

/** The field `packageManager`, as Corepack defines it. */
export interface PackageManagerField extends NamedRange {
  readonly hash: string | undefined
}

/** Reads the text of a package.json. Never throws. */
export function parsePackageJson(text: string): Read<PackageJson> {
  const read = readJson('package.json', text)
  if (!read.ok) return read
  const { value } = read
  if (!isFields(value)) return { ok: false, message: 'package.json must hold a JSON object.' }
  const { name, version, main, module, scripts, engines, volta, devEngines, config, packageManager } = value
  const { dependencies, devDependencies, optionalDependencies, workspaces } = value
  const installed = [dependencies, devDependencies, optionalDependencies, workspaces]
  return {
    ok: true,
    value: {
      name: printableOf(name),
      version: printableOf(version),
      main: stringOf(main),
      module: stringOf(module),
      scripts: textsOf(scripts),
      engines: textsOf(engines),
      volta: textsOf(volta),
      devEngines: {
        runtime: namedOf(fieldsOf(devEngines)['runtime']),
        packageManager: namedOf(fieldsOf(devEngines)['packageManager']),
      },
      dependencies: new Set(Object.keys(fieldsOf(dependencies))),
      devDependencies: new Set(Object.keys(fieldsOf(devDependencies))),
      installs: installed.some((field) => typeof field === 'object' && field !== null && Object.keys(field).length > 0),
      packageManager: managerOf(packageManager),
      hasConfig: Object.keys(fieldsOf(config)).length > 0,
    },
  }
}

function managerOf(value: unknown): PackageManagerField | undefined {
  const [, name, version, hash] = /^(npm|pnpm|yarn|bun)@([^+\s]{1,100})(?:\+(\S+))?$/.exec(stringOf(value) ?? '') ?? []
  return name === undefined || version === undefined ? undefined : { name, version, hash }
}

function namedOf(value: unknown): NamedRange | undefined {
  const { name, version = '*' } = fieldsOf(value)
  return isText(name) && isText(version) ? { name, version } : undefined
}

/** Reads the package.json at the top of a tree; undefined if missing or invalid, which the Node detector reports. */
export function readPackageJson(files: SourceTree): PackageJson | undefined {
  const parsed = parsePackageJson(files.read('package.json') ?? '')
  return parsed.ok ? parsed.value : undefined
}

const textsOf = (value: unknown): ReadonlyMap<string, string> =>
  new Map(Object.entries(fieldsOf(value)).filter((entry): entry is [string, string] => isText(entry[1])))

const isText = (value: unknown): value is string => typeof value === 'string'
const stringOf = (value: unknown): string | undefined => (isText(value) && value.trim() !== '' ? value : undefined)

const printableOf = (value: unknown): string | undefined => {
  const text = stringOf(value)
  return isText(text) && text.isWellFormed() && !/\p{Cc}/u.test(text) ? text : undefined
}
