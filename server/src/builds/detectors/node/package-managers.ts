import validRange from 'semver/ranges/valid.js'
import type { Command } from '../../../platform/command.ts'
import { isModernYarn, type ToolName, type ToolRequest } from '../../../platform/toolchain.ts'
import type { NamedRange, PackageJson } from '../../package-json.ts'
import type { SourceTree } from '../../tree.ts'
import { fromFile, fromManifests, fromToolVersions, rangeOf, type VersionSource } from './versions.ts'

/** A package manager: it installs an app's packages and runs its scripts. */
export interface PackageManager {
  readonly name: 'npm' | 'pnpm' | 'yarn' | 'bun'
  readonly env: Readonly<Record<string, string>>
  /** Of its installation; variables of the operator and of the app come before them. */
  readonly settings?: Command['settings']
  /** True when plain `node` finds the packages that it installed. */
  readonly plainNode: boolean
  /** @param options.locked true when there is a lock file, which is followed exactly */
  install(options: { readonly locked: boolean; readonly dev: boolean }): Command['argv']
}

/** npm without audit, funding and update notices, each of which would ask the registry. */
const npm: PackageManager = {
  name: 'npm',
  env: { npm_config_audit: 'false', npm_config_fund: 'false', npm_config_update_notifier: 'false' },
  // npm says nothing while it tries again. By default it waits for a registry that does not answer for 17 minutes, longer than a build.
  settings: { npm_config_fetch_timeout: '60000', npm_config_fetch_retry_maxtimeout: '10000' },
  plainNode: true,
  // NODE_ENV=production leaves development dependencies out, but a build script usually needs them.
  install: ({ locked, dev }) => ['npm', locked ? 'ci' : 'install', dev ? '--include=dev' : '--omit=dev'],
}

/** pnpm by default downloads, or insists on, the version in `packageManager`; versions 9 to 11 write the same lock file. */
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

/** Yarn 1. It refuses a `packageManager` of another version, which apps name for Corepack. */
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

/** The first version of the lock file that Yarn 4 does not rewrite. */
const FIRST_OF_YARN_4 = 8

/**
 * Yarn 2 and later, by the `yarn` of the toolchain that `FAIRLEAD_YARN` chooses.
 *
 * @param lockVersion of the lock file, if there is one
 */
function modernYarn(lockVersion?: number): PackageManager {
  const lasts = lockVersion !== undefined && lockVersion >= FIRST_OF_YARN_4
  return {
    name: 'yarn',
    env: {
      FAIRLEAD_YARN: 'modern',
      // A release keeps its packages when the cache is deleted; the cache still saves the download.
      YARN_ENABLE_GLOBAL_CACHE: 'false',
      YARN_ENABLE_TELEMETRY: 'false',
      // A lock file of an earlier 4.x would otherwise count as one that has to change.
      ...(lasts ? { YARN_LOCKFILE_VERSION_OVERRIDE: String(lockVersion) } : {}),
    },
    // By default it installs no node_modules, and its own loader is needed.
    plainNode: false,
    install: ({ locked }) => ['yarn', 'install', lasts && locked ? '--immutable' : '--no-immutable'],
  }
}

/** Bun, which runs scripts as well; its packages lie where Node finds them. */
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
  /** The folder of the lock file: the app's own, or the top of the repository for a member of a workspace. */
  readonly folder: string
  readonly locked: boolean
}

/**
 * Chooses the package manager of an app: the one of its lock file, and of several the one that `packageManager` names;
 * without any the named one, or Bun for an app with the types of Bun's API, which `bun init` adds, or npm. A member of a
 * workspace has its lock file at the top of the repository.
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
    // A later Yarn takes over the lock file of Yarn 1.
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
