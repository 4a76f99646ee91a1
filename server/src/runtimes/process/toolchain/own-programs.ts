import { chmod, copyFile, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { assetFile } from '../../../platform/package-files.ts'
import { makePassableDirectory, reachableCopy } from '../../../platform/reachable-files.ts'
import { folderRunnerName, phpServerName, pythonLockName, type ToolName } from '../../../platform/toolchain.ts'
import type { OsUser } from '../../../platform/users.ts'
import { copyEnter } from '../../enter.ts'
import { CACHE_VARIABLE } from '../../environment.ts'

/** The programs of builds and apps. All paths are absolute, and the users of apps can read them. */
export interface Programs {
  readonly node: string
  readonly bin: string
  readonly enter: string
  readonly own: OwnTools
  readonly tools: string
  /** The programs of all builds and apps: the first folder of PATH, Node and the package managers. */
  readonly shared: readonly string[]
  /** All files that the programs read in addition to the system files. */
  readonly paths: readonly string[]
}

/** Copies the server's Node and package managers to `runtime` where `user` cannot read the installed files. */
export async function preparePrograms(options: {
  readonly runtime: string
  readonly bin: string
  readonly tools: string
  readonly user: OsUser | null
}): Promise<Programs> {
  const { runtime, bin, tools, user } = options
  const packageCopy = async (name: string): Promise<{ readonly path: string; readonly version: string }> => {
    const manifest = findPackageJSON(name, import.meta.url)
    if (manifest === undefined) throw new Error(`${name} is not installed`)
    const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string }
    const copyTo = join(runtime, `${name.replace('/', '-')}-${version}`)
    return { path: await reachableCopy({ source: dirname(manifest), copyTo, user }), version }
  }
  const [enter, node, npm, pnpm, yarn, modernYarn] = await Promise.all([
    copyEnter(runtime, 'enter'),
    reachableCopy({ source: process.execPath, copyTo: join(runtime, `node-${process.version}`), user }),
    packageCopy('npm'),
    packageCopy('pnpm'),
    packageCopy('yarn'),
    packageCopy('@yarnpkg/cli-dist'),
  ])
  const own: OwnTools = {
    node,
    npmCli: join(npm.path, 'bin', 'npm-cli.js'),
    pnpmCli: join(pnpm.path, 'bin', 'pnpm.cjs'),
    yarnCli: join(yarn.path, 'bin', 'yarn.js'),
    modernYarnCli: join(modernYarn.path, 'bin', 'yarn.js'),
    versions: {
      node: [process.versions.node],
      npm: [npm.version],
      pnpm: [pnpm.version],
      yarn: [yarn.version, modernYarn.version],
    },
  }
  await prepareBin({ ...own, directory: bin })
  // Sandboxes show the folder, so it must exist before the first.
  await makePassableDirectory(tools)
  const packages = [npm, pnpm, yarn, modernYarn].map(({ path }) => path)
  const shared = [bin, node, ...packages]
  return { node, bin, enter, own, tools, shared, paths: [...shared, tools, enter] }
}

/** The programs in the installation of the server. All paths are absolute. */
export interface OwnTools {
  readonly node: string
  /** `bin/npm-cli.js`; npx is beside it. */
  readonly npmCli: string
  /** `bin/pnpm.cjs`. */
  readonly pnpmCli: string
  /** `bin/yarn.js` of Yarn 1. */
  readonly yarnCli: string
  /** A newer Yarn, for builds with `FAIRLEAD_YARN=modern`. */
  readonly modernYarnCli: string
  readonly versions: Readonly<Partial<Record<ToolName, readonly string[]>>>
}

export interface PrepareBinOptions extends Omit<OwnTools, 'versions'> {
  readonly directory: string
  /**
   * The programs that run package managers, by the path of the package manager: null for a native program; a missing
   * entry means `node`.
   */
  readonly runners?: Readonly<Record<string, string | null>>
  readonly bun?: string
  readonly deno?: string
}

/**
 * Fills the first folder of PATH: `node`, `npm`, `npx`, `pnpm` and `yarn`; Bun and Deno if needed; `fairlead-in`, which
 * runs a command in a folder; `fairlead-php`, which serves an app in PHP; and `fairlead-python-lock`, which installs
 * the packages of a lock file. Replaces existing files, so that a later server installs its own versions. All paths are
 * absolute, and apps' users must be able to read them.
 */
export async function prepareBin(options: PrepareBinOptions): Promise<void> {
  const { directory, node } = options
  await mkdir(directory, { recursive: true })
  await chmod(directory, 0o755)
  await replace(join(directory, 'node'), (path) => symlink(node, path))
  for (const [name, asset] of Object.entries(assets)) {
    await replace(join(directory, name), (path) => copyFile(asset, path))
    await chmod(join(directory, name), 0o644)
  }
  for (const [name, lines] of Object.entries(scripts(options))) {
    await replace(join(directory, name), (path) => writeScript(path, lines))
  }
}

const phpRouter = 'fairlead-php-router.php'
const pythonLock = 'fairlead-python-lock.py'

/** Scripts for the interpreters of the machine. They are beside the shell scripts that run them. */
const assets = { [phpRouter]: assetFile('php/router.php'), [pythonLock]: assetFile('python/install-lock.py') }

function scripts(options: PrepareBinOptions): Readonly<Record<string, readonly string[]>> {
  const { directory, node, npmCli, pnpmCli, yarnCli, modernYarnCli, runners = {} } = options
  const run = (script: string, cli = script) => {
    const runner = runners[cli] === undefined ? node : runners[cli]
    return `exec ${runner === null ? '' : `${quote(runner)} `}${quote(script)} "$@"`
  }
  const npmCache = cacheVariables({ npm_config_cache: 'npm' })
  const pnpmCache = [
    ...cacheVariables({ npm_config_store_dir: 'pnpm', npm_config_cache_dir: 'pnpm-metadata' }),
    // pnpm 11 and later read separate variables.
    ...['registry', 'store_dir', 'cache_dir'].flatMap((name) => sameAs(`pnpm_config_${name}`, `npm_config_${name}`)),
  ]
  return {
    npm: [...npmCache, run(npmCli)],
    npx: [...npmCache, run(join(dirname(npmCli), 'npx-cli.js'), npmCli)],
    pnpm: [...pnpmCache, run(pnpmCli)],
    yarn: [
      'if [ "$FAIRLEAD_YARN" = modern ]; then',
      ...cacheVariables({ YARN_GLOBAL_FOLDER: 'yarn' }),
      run(modernYarnCli),
      'fi',
      ...cacheVariables({ YARN_CACHE_FOLDER: 'yarn-1' }),
      run(yarnCli),
    ],
    ...runtimes(options),
    // The script enters the folder with the rights of the app: the app may have replaced the folder by a link.
    [folderRunnerName]: [
      'cd -- "$1" || exit 126',
      'shift',
      `export PATH=${quote(directory)}:"$PWD/node_modules/.bin:$PWD/.venv/bin:$PATH:$PWD/bin"`,
      // The shell's error would name this script, which users do not know.
      'command -v -- "$1" > /dev/null || { printf "%s\\n" "$1: command not found" >&2; exit 127; }',
      'exec "$@"',
    ],
    // Uses the environment in the app's folder, but -I keeps modules of this folder out.
    [pythonLockName]: [`exec .venv/bin/python -I ${quote(join(directory, pythonLock))} "$@"`],
    // Several workers, because one process answers one request at a time. Errors go to the log, not to visitors.
    [phpServerName]: [
      '[ -n "$PHP_CLI_SERVER_WORKERS" ] || export PHP_CLI_SERVER_WORKERS=4',
      'exec php -d display_errors=0 -d log_errors=1 -d expose_php=0 -d memory_limit=128M \\',
      `-S "0.0.0.0:$PORT" -t "$1" ${quote(join(directory, phpRouter))}`,
    ],
  }
}

/** Scripts for Bun and Deno, which have their own variables for the registry and the certificates of builds. */
function runtimes({ bun, deno }: PrepareBinOptions): Readonly<Record<string, readonly string[]>> {
  const bunCache = cacheVariables({ BUN_INSTALL_CACHE_DIR: 'bun' })
  return {
    ...(bun === undefined
      ? {}
      : {
          bun: [...bunCache, `exec ${quote(bun)} "$@"`],
          bunx: [...bunCache, `exec ${quote(bun)} x "$@"`],
        }),
    ...(deno === undefined
      ? {}
      : {
          deno: [
            ...sameAs('NPM_CONFIG_REGISTRY', 'npm_config_registry'),
            ...sameAs('DENO_CERT', 'NODE_EXTRA_CA_CERTS'),
            `exec ${quote(deno)} "$@"`,
          ],
        }),
  }
}

/** Returns lines that copy another variable to a variable that is not set. */
const sameAs = (name: string, other: string): string[] => [
  `if [ -z "$${name}" ] && [ -n "$${other}" ]; then export ${name}="$${other}"; fi`,
]

/**
 * Returns lines that set the variables for the download folders of a package manager to the cache of the build. Apps
 * have no cache. A variable that the app has set stays.
 */
function cacheVariables(folders: Readonly<Record<string, string>>): string[] {
  return [
    `if [ -n "$${CACHE_VARIABLE}" ]; then`,
    ...Object.entries(folders).map(([name, folder]) => `export ${name}="\${${name}:-$${CACHE_VARIABLE}/${folder}}"`),
    'fi',
  ]
}

/** Replaces a file atomically: a running build keeps its open file. */
async function replace(path: string, make: (path: string) => Promise<void>): Promise<void> {
  const fresh = `${path}.new`
  await rm(fresh, { force: true })
  await make(fresh)
  await rename(fresh, path)
}

async function writeScript(path: string, lines: readonly string[]): Promise<void> {
  await writeFile(path, ['#!/bin/sh', ...lines, ''].join('\n'))
  await chmod(path, 0o755)
}

/** Quotes one word for a POSIX shell (section 2.2.2, single quotes). */
const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
