import validRange from 'semver/ranges/valid.js'
import { isModernYarn, type ToolName, type ToolRequest } from '../../../platform/toolchain.ts'
import type { SourceTree } from '../../source/tree.ts'
import type { Installing } from './package-managers.ts'
import { fromFile, fromManifests, fromToolVersions, rangeOf, type VersionSource } from './versions.ts'

/** The pnpm that wrote a lock file, by the version of the lock file; the server's own writes the others. */
const pnpmOfLock: readonly (readonly [RegExp, string])[] = [
  [/^6\./, '8'],
  [/^5\.4/, '7'],
  [/^5\.3/, '6'],
  [/^5\./, '5'],
]

/**
 * Returns the version of the package manager that the repository asks for: in `packageManager`, `volta`, .tool-versions,
 * `devEngines`, in `engines` where the manager insists on it, or by its lock file. None for the server's own.
 *
 * @param repository all files, for the lock file
 */
export function askedManager(
  sources: readonly VersionSource[],
  { manager, folder, locked }: Installing,
  repository: SourceTree,
): ToolRequest | null {
  const { name } = manager
  if (name === 'bun') return askedRuntime(sources, 'bun', 'the lock file')
  const fits = (range: string) => name !== 'yarn' || isModernYarn(range) === 'FAIRLEAD_YARN' in manager.env
  const named = sources.map(({ manifest }) => manifest?.packageManager).find((each) => each !== undefined)
  if (named?.name === name && fits(named.version)) {
    const range = rangeOf(named.version)
    const from = '"packageManager" in package.json'
    const hash = named.hash === undefined ? {} : { hash: named.hash }
    if (range !== null && range !== '*') return { tool: name, range, from, ...hash }
  }
  const asked = [
    ...fromManifests(sources, `"volta.${name}"`, ({ volta }) => volta.get(name)),
    ...fromToolVersions(sources, [name]),
    ...fromManifests(sources, '"devEngines.packageManager"', ({ devEngines: { packageManager } }) =>
      packageManager?.name === name ? packageManager.version : undefined,
    ),
    // npm only warns about its own.
    ...(name === 'npm' ? [] : fromManifests(sources, `"engines.${name}"`, ({ engines }) => engines.get(name))),
  ]
  for (const { value, from } of asked) {
    const range = rangeOf(value)
    if (range !== null && range !== '*' && fits(range)) return { tool: name, range, from }
  }
  return name === 'pnpm' && locked ? pnpmByLock(repository, folder) : null
}

function pnpmByLock(files: SourceTree, folder: string): ToolRequest | null {
  const text = files.read(folder === '.' ? 'pnpm-lock.yaml' : `${folder}/pnpm-lock.yaml`) ?? ''
  const [, version = ''] = /^lockfileVersion:\s*['"]?([\d.]+)/m.exec(text) ?? []
  const range = pnpmOfLock.find(([pattern]) => pattern.test(version))?.[1]
  return range === undefined ? null : { tool: 'pnpm', range, from: 'pnpm-lock.yaml' }
}

/** Returns the request for Bun or Deno: the version that the repository names, or any. */
export function askedRuntime(
  sources: readonly VersionSource[],
  tool: Extract<ToolName, 'bun' | 'deno'>,
  because: string,
): ToolRequest {
  const asked = [
    ...fromManifests(sources, '"packageManager"', ({ packageManager }) =>
      packageManager?.name === tool ? packageManager.version : undefined,
    ),
    ...fromFile(sources, tool === 'bun' ? '.bun-version' : '.dvmrc'),
    ...fromToolVersions(sources, [tool]),
    ...fromManifests(sources, `"engines.${tool}"`, ({ engines }) => engines.get(tool)),
  ]
  for (const { value, from } of asked) {
    const range = validRange(value) === null ? null : rangeOf(value)
    if (range !== null && range !== '*') return { tool, range, from }
  }
  return { tool, range: '*', from: because }
}

/** The scripts that run in a deployment by themselves. */
const runByItself = ['start', 'build', 'install', 'prepare', 'prestart', 'poststart', 'prebuild', 'postbuild'] as const
const installHooks = ['preinstall', 'postinstall'] as const

/**
 * Returns the runtimes besides Node that a deployment's commands call: `bun …`, `bunx …` and `deno …` in scripts that run, in
 * scripts that those run, and in commands of the owner.
 */
export function calledRuntimes(
  scripts: ReadonlyMap<string, string>,
  commands: readonly string[],
): readonly Extract<ToolName, 'bun' | 'deno'>[] {
  const seen = new Set<string>()
  const texts = [...commands]
  const add = (name: string): void => {
    const text = scripts.get(name)
    if (text === undefined || seen.has(name)) return
    seen.add(name)
    texts.push(text)
    for (const word of text.split(/[\s"']+/)) if (scripts.has(word)) add(word)
  }
  for (const name of [...runByItself, ...installHooks]) add(name)
  const calls = (pattern: RegExp) => texts.some((text) => pattern.test(text))
  return [
    ...(calls(/(?:^|[\s;&|("'])bunx?(?=[\s;&|)"']|$)/) ? (['bun'] as const) : []),
    ...(calls(/(?:^|[\s;&|("'])deno(?=[\s;&|)"']|$)/) ? (['deno'] as const) : []),
  ]
}
