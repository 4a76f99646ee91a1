import validRange from 'semver/ranges/valid.js'
import type { Command } from '../../../platform/command.ts'
import { isModernYarn, type ToolName, type ToolRequest } from '../../../platform/toolchain.ts'
import type { NamedRange, PackageJson } from '../../package-json.ts'
import type { SourceTree } from '../../tree.ts'
import { fromFile, fromManifests, fromToolVersions, rangeOf, type VersionSource } from './versions.ts'

export interface PackageManager {
  readonly name: 'npm' | 'pnpm' | 'yarn' | 'bun'
  readonly env: Readonly<Record<string, string>>
  /** Variables for the installation. Variables of the operator and of the app take precedence. */
  readonly settings?: Command['settings']
  /** True when plain `node` finds the installed packages. */
  readonly plainNode: boolean
  /** @param options.locked a lock file fixes the versions */
  install(options: { readonly locked: boolean; readonly dev: boolean }): Command['argv']
}

/** Audit, funding and update notices would each send requests to the registry. */
const npm: PackageManager = {
  name: 'npm',
  env: { npm_config_audit: 'false', npm_config_fund: 'false', npm_config_update_notifier: 'false' },
  // npm retries silently. By default it waits 17 minutes for a silent registry, longer than a build may take.
  settings: { npm_config_fetch_timeout: '60000', npm_config_fetch_retry_maxtimeout: '10000' },
  plainNode: true,
  // NODE_ENV=production would skip development dependencies, but a build script usually needs them.
  install: ({ locked, dev }) => ['npm', locked ? 'ci' : 'install', dev ? '--include=dev' : '--omit=dev'],
}

/** By default pnpm downloads or requires the version in `packageManager`. Versions 9 to 11 write the same lock file. */
const pnpm: PackageManager = {
  name: 'pnpm',
  env: {
    npm_config_update_notifier: 'false',
    npm_config_manage_package_manager_versions: 'false',
    npm_config_package_manager_strict: 'false',
    // The names in pnpm 11 and later.
    pnpm_config_update_notifier: 'false',
    pnpm_config_pm_on_fail: 'ignore',
  },
  plainNode: true,
  install: ({ locked, dev }) => ['pnpm', 'install', ...(locked ? ['--frozen-lockfile'] : []), `--prod=${!dev}`],
}

/** Yarn 1. It would refuse apps whose `packageManager` names another version for Corepack. */
const classicYarn: PackageManager = {
  name: 'yarn',
  env: { SKIP_YARN_COREPACK_CHECK: '1' },
  plainNode: true,
  install: ({ locked, dev }) => [
    'yarn',
    'install',
    ...(locked ? ['--frozen-lockfile'] : []),
    '--non-interactive',
    `--production=${!dev}`,
  ],
}

/** Yarn 4 does not rewrite lock files from this version on. */
const FIRST_OF_YARN_4 = 8

/**
 * Yarn 2 and later, run by the `yarn` of the toolchain, which `FAIRLEAD_YARN` selects.
 *
 * @param lockVersion of the lock file, if there is one
 */
function modernYarn(lockVersion?: number): PackageManager {
  const lasts = lockVersion !== undefined && lockVersion >= FIRST_OF_YARN_4
  return {
    name: 'yarn',
    env: {
      FAIRLEAD_YARN: 'modern',
      // Stored in the release, packages survive the deletion of the cache. The cache still saves downloads.
      YARN_ENABLE_GLOBAL_CACHE: 'false',
      YARN_ENABLE_TELEMETRY: 'false',
      // Otherwise Yarn would change the lock file of an earlier 4.x.
      ...(lasts ? { YARN_LOCKFILE_VERSION_OVERRIDE: String(lockVersion) } : {}),
    },
    // By default it creates no node_modules, so Node needs the Yarn loader.
    plainNode: false,
    install: ({ locked }) => ['yarn', 'install', lasts && locked ? '--immutable' : '--no-immutable'],
  }
}

/** Bun also runs scripts. Node finds its packages. */
const bun: PackageManager = {
  name: 'bun',
  env: {},
  plainNode: true,
  install: ({ locked, dev }) => [
    'bun',
    'install',
    ...(locked ? ['--frozen-lockfile'] : []),
    ...(dev ? [] : ['--production']),
  ],
}

export interface Installing {
  readonly manager: PackageManager
  /** The folder of the lock file: the app's folder, or the top of the repository for a workspace member. */
  readonly folder: string
  readonly locked: boolean
}

/**
 * Chooses the package manager of an app by its lock file; with several lock files, by `packageManager`. Without a lock
 * file: the manager in `packageManager`, else Bun for an app with Bun's types, which `bun init` adds, else npm. A
 * workspace member has its lock file at the top of the repository.
 */
export function chooseManager(
  files: SourceTree,
  root: string,
  { packageManager: named, devDependencies }: Pick<PackageJson, 'packageManager' | 'devDependencies'>,
): Installing {
  for (const folder of new Set([root, '.'])) {
    const locks = locksIn(files, folder, named)
    const manager = locks.find(({ name }) => name === named?.name) ?? locks[0]
    if (manager !== undefined) return { manager, folder, locked: true }
  }
  const isBuns = devDependencies.has('@types/bun') || devDependencies.has('bun-types')
  const manager = named === undefined ? (isBuns ? bun : npm) : managerNamed(named)
  return { manager, folder: root, locked: false }
}

function locksIn(files: SourceTree, folder: string, named: NamedRange | undefined): PackageManager[] {
  const path = (name: string) => (folder === '.' ? name : `${folder}/${name}`)
  const locks: PackageManager[] = []
  if (files.has(path('package-lock.json')) || files.has(path('npm-shrinkwrap.json'))) locks.push(npm)
  if (files.has(path('pnpm-lock.yaml'))) locks.push(pnpm)
  if (files.has(path('yarn.lock'))) {
    const text = files.read(path('yarn.lock')) ?? ''
    const [, version] = /^__metadata:\s+version: (\d{1,4})$/m.exec(text) ?? []
    if (version !== undefined) locks.push(modernYarn(Number(version)))
    // Later versions of Yarn convert the lock file of Yarn 1.
    else locks.push(named?.name === 'yarn' ? managerNamed(named) : classicYarn)
  }
  if (files.has(path('bun.lock')) || files.has(path('bun.lockb'))) locks.push(bun)
  return locks
}

function managerNamed({ name, version }: NamedRange): PackageManager {
  if (name === 'pnpm') return pnpm
  if (name === 'bun') return bun
  if (name === 'yarn') return isModernYarn(version) ? modernYarn() : classicYarn
  return npm
}

/** The versions of pnpm by lock file version. The server's pnpm handles all others. */
const pnpmOfLock: readonly (readonly [RegExp, string])[] = [
  [/^6\./, '8'],
  [/^5\.4/, '7'],
  [/^5\.3/, '6'],
  [/^5\./, '5'],
]

/**
 * Returns the version of the package manager that the repository requests: in `packageManager`, `volta`,
 * .tool-versions, `devEngines`, in `engines` if the manager enforces it, or by its lock file. None for the server's
 * version.
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
    // npm only warns about `engines.npm`.
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

/** Returns the request for Bun or Deno, with the version that the repository names, or any version. */
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

/** A deployment runs these scripts automatically. */
const runByItself = ['start', 'build', 'install', 'prepare', 'prestart', 'poststart', 'prebuild', 'postbuild'] as const
const installHooks = ['preinstall', 'postinstall'] as const

/**
 * Returns the runtimes besides Node that commands of a deployment call: `bun …`, `bunx …` and `deno …` in automatic
 * scripts, in scripts that these scripts call, and in commands of the owner.
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
