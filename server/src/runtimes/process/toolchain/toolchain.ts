import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CACHE_VARIABLE } from './environment.ts'

/** The server of static sites, by a name that stays the same when a later server brings a newer one. */
export const staticServerName = 'fairlead-static'

/** Runs a command in a folder of the release, with the programs of that folder's packages at hand. */
export const folderRunnerName = 'fairlead-in'

/**
 * Fills the folder that comes first on the PATH of builds and apps: `node`, `npm`, `npx`, `pnpm` and `yarn` of the
 * server's choice, `fairlead-static`, which serves a folder, and `fairlead-in`, which runs a command in one.
 * Replaces what is there, so that a later server brings its own versions. All paths are absolute and must be readable
 * by the users that apps run as.
 *
 * @param options.npmCli npm's `bin/npm-cli.js`; npx lies beside it
 * @param options.pnpmCli pnpm's `bin/pnpm.cjs`
 * @param options.yarnCli the `bin/yarn.js` of Yarn 1
 * @param options.modernYarnCli the same of a later Yarn, which takes over where `FAIRLEAD_YARN` is `modern`
 */
export async function prepareBin(options: {
  readonly directory: string
  readonly node: string
  readonly npmCli: string
  readonly pnpmCli: string
  readonly yarnCli: string
  readonly modernYarnCli: string
  readonly staticServer: string
}): Promise<void> {
  const { directory, node, npmCli, pnpmCli, yarnCli, modernYarnCli, staticServer } = options
  await mkdir(directory, { recursive: true })
  await chmod(directory, 0o755)
  await replace(join(directory, 'node'), (path) => symlink(node, path))
  await replace(join(directory, 'npm'), (path) => writeWrapper(path, node, npmCli, npmCache))
  await replace(join(directory, staticServerName), (path) => writeWrapper(path, node, staticServer, [], '"$@" "$PORT"'))
  await replace(join(directory, 'pnpm'), (path) => writeWrapper(path, node, pnpmCli, pnpmCache))
  await replace(join(directory, 'yarn'), (path) =>
    writeScript(path, [
      'if [ "$FAIRLEAD_YARN" = modern ]; then',
      ...keepingIn({ YARN_GLOBAL_FOLDER: 'yarn' }),
      `exec ${quote(node)} ${quote(modernYarnCli)} "$@"`,
      'fi',
      ...keepingIn({ YARN_CACHE_FOLDER: 'yarn-1' }),
      `exec ${quote(node)} ${quote(yarnCli)} "$@"`,
    ]),
  )
  // The command changes its folder itself, with the app's rights: the app may have put a link there meanwhile.
  await replace(join(directory, folderRunnerName), (path) =>
    writeScript(path, [
      'cd -- "$1" || exit 126',
      'shift',
      `export PATH=${quote(directory)}:"$PWD/node_modules/.bin:$PWD/.venv/bin:$PATH"`,
      'exec "$@"',
    ]),
  )
  await replace(join(directory, 'npx'), (path) =>
    writeWrapper(path, node, join(dirname(npmCli), 'npx-cli.js'), npmCache),
  )
}

/**
 * Lines that tell a package manager where to keep what it downloads, by variables of its own: each a folder in the cache
 * that builds have. Apps have none, and who has chosen a place for it keeps that.
 */
const keepingIn = (places: Readonly<Record<string, string>>): string[] => [
  `if [ -n "$${CACHE_VARIABLE}" ]; then`,
  ...Object.entries(places).map(([name, folder]) => `export ${name}="\${${name}:-$${CACHE_VARIABLE}/${folder}}"`),
  'fi',
]

const npmCache = keepingIn({ npm_config_cache: 'npm' })
const pnpmCache = keepingIn({ npm_config_store_dir: 'pnpm', npm_config_cache_dir: 'pnpm-metadata' })

/** A running build keeps what it has: the new file takes the old one's place in one step. */
async function replace(path: string, make: (path: string) => Promise<void>): Promise<void> {
  const fresh = `${path}.new`
  await rm(fresh, { force: true })
  await make(fresh)
  await rename(fresh, path)
}

function writeWrapper(
  path: string,
  node: string,
  script: string,
  before: readonly string[],
  args = '"$@"',
): Promise<void> {
  return writeScript(path, [...before, `exec ${quote(node)} ${quote(script)} ${args}`])
}

async function writeScript(path: string, lines: readonly string[]): Promise<void> {
  await writeFile(path, ['#!/bin/sh', ...lines, ''].join('\n'))
  await chmod(path, 0o755)
}

/** One word of POSIX shell (section 2.2.2, single quotes). */
const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
