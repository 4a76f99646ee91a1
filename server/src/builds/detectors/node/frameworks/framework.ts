import type { Program } from '../../lines/programs.ts'

/** An app as far as a framework needs to know it. */
export interface FrameworkApp {
  /** True for a package among the app's dependencies of either kind. */
  uses(name: string): boolean
  /** The text of a file at the top of the app's folder, such as a configuration; undefined without one. */
  read(name: string): string | undefined
  /** The programs that the build script runs. */
  readonly builds: readonly Program[]
}

/** Something that a build may have made, from the app's folder. */
export type Output =
  /** A server, which is started by these words when the file is there. */
  | {
      readonly file: string
      readonly start: readonly [string, ...string[]]
      /** The part of the file's path, and of the words, in whose place a configuration may put another folder. */
      readonly folder?: string
      /** A name in that folder by which the server is told from other programs. */
      readonly beside?: string
    }
  /** A site, when the folder, or the one in its place, has an index.html; with `isRouted`, its routes exist in the browser alone. */
  | { readonly folder: string; readonly isRouted: boolean; readonly beside?: string }

export interface Framework {
  readonly name: string
  /** It is used where one of these packages is a dependency. */
  readonly packages: readonly string[]
  /** The words that build with it, where package.json has no script for that. */
  readonly build?: readonly [string, ...string[]]
  /** Everything that its build may make, the most telling first. */
  outputs(app: FrameworkApp): readonly Output[]
  /** Variables of its production server behind the gateway. */
  readonly env?: Readonly<Record<string, string>>
  /** Variables of its build. */
  buildEnv?(app: FrameworkApp): Readonly<Record<string, string>>
  /** A further sentence for a build that made none of the outputs; undefined if the app already follows the advice. */
  advice?(app: FrameworkApp): string | undefined
}

/** A server in a file that Node runs. */
export const nodeServer = (file: string, argument = file): Output => ({ file, start: ['node', argument] })

/** A server in a file that Node runs, in a folder that a configuration may name. */
export const serverIn = (folder: string, entry: string, beside?: string): Output => ({
  file: `${folder}/${entry}`,
  start: ['node', `${folder}/${entry}`],
  folder,
  ...(beside === undefined ? {} : { beside }),
})

/** Says a sentence unless the app has one of the packages that it advises. */
export const unlessUses =
  (sentence: string, ...packages: readonly string[]) =>
  ({ uses }: FrameworkApp): string | undefined =>
    packages.some(uses) ? undefined : sentence

/** A site of pages, one for each address. */
export const pages = (folder: string): Output => ({ folder, isRouted: false })

/** A site whose routes exist in the browser alone. */
export const routed = (folder: string): Output => ({ folder, isRouted: true })

/** Returns the value of an option of a program of the build, such as `--outDir`. */
export function optionOf({ builds }: FrameworkApp, program: string, ...names: readonly string[]): string | undefined {
  for (const { name, args } of builds) {
    if (name !== program) continue
    for (const [at, arg] of args.entries()) {
      const [key, value] = arg.split(/=(.*)/s)
      if (names.includes(key ?? '')) return insideOf(value ?? args[at + 1])
    }
  }
  return undefined
}

/** Returns the first word after the verb of a program of the build, such as `docs` in `vitepress build docs`. */
export function folderOf({ builds }: FrameworkApp, program: string): string | undefined {
  const found = builds.find(({ name, args }) => name === program && args[0] === 'build')
  const [, folder] = found?.args ?? []
  return folder?.startsWith('-') === true ? undefined : insideOf(folder)
}

/** Returns a folder below the app's as it is written in a configuration; undefined for any other value. */
export function insideOf(path: string | undefined): string | undefined {
  if (path === undefined || !/^(?:\.\/)?[\w@-][\w@.-]*(?:\/[\w@-][\w@.-]*)*\/?$/.test(path)) return undefined
  return path.replace(/^\.\//, '').replace(/\/$/, '')
}
