import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { folderRunnerName, staticServerName } from '../../../platform/toolchain.ts'
import { CACHE_VARIABLE } from '../release/environment.ts'

/**
 * Fills the folder that comes first on the PATH of builds and apps: `node`, `npm`, `npx`, `pnpm` and `yarn` of the
 * server's choice, `fairlead-static`, which serves a folder, and `fairlead-in`, which runs a command in one.
 * Replaces existing files, so that a later server installs its own versions. All paths are absolute and must be readable
 * by the users that apps run as.
 *
 * @param options.npmCli npm's `bin/npm-cli.js`; npx is beside it
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
  const { directory, node } = options
  await mkdir(directory, { recursive: true })
  await chmod(directory, 0o755)
  await replace(join(directory, 'node'), (path) => symlink(node, path))
  for (const [name, lines] of Object.entries(scripts(options))) {
    await replace(join(directory, name), (path) => writeScript(path, lines))
  }
}

/** Returns the lines of each script by the name of its file. */
function scripts(options: Parameters<typeof prepareBin>[0]): Readonly<Record<string, readonly string[]>> {
  const { directory, node, npmCli, pnpmCli, yarnCli, modernYarnCli, staticServer } = options
  const run = (script: string, args = '"$@"') => `exec ${quote(node)} ${quote(script)} ${args}`
  const npmCache = cacheVariables({ npm_config_cache: 'npm' })
  const pnpmCache = cacheVariables({ npm_config_store_dir: 'pnpm', npm_config_cache_dir: 'pnpm-metadata' })
  return {
    npm: [...npmCache, run(npmCli)],
    npx: [...npmCache, run(join(dirname(npmCli), 'npx-cli.js'))],
    pnpm: [...pnpmCache, run(pnpmCli)],
    yarn: [
      'if [ "$FAIRLEAD_YARN" = modern ]; then',
      ...cacheVariables({ YARN_GLOBAL_FOLDER: 'yarn' }),
      run(modernYarnCli),
      'fi',
      ...cacheVariables({ YARN_CACHE_FOLDER: 'yarn-1' }),
      run(yarnCli),
    ],
    [staticServerName]: [run(staticServer, '"$@" "$PORT"')],
    // The script changes the folder itself, with the app's rights: the app may have put a link there meanwhile.
    [folderRunnerName]: [
      'cd -- "$1" || exit 126',
      'shift',
      `export PATH=${quote(directory)}:"$PWD/node_modules/.bin:$PWD/.venv/bin:$PATH"`,
      'exec "$@"',
    ],
  }
}

/**
 * Returns lines that tell a package manager to keep its downloads in folders of the build's cache, by variables of its
 * own. Apps have no cache; a variable that the app has set itself stays.
 */
function cacheVariables(folders: Readonly<Record<string, string>>): string[] {
  return [
    `if [ -n "$${CACHE_VARIABLE}" ]; then`,
    ...Object.entries(folders).map(([name, folder]) => `export ${name}="\${${name}:-$${CACHE_VARIABLE}/${folder}}"`),
    'fi',
  ]
}

/** Replaces a file in one step: a running build keeps the file that it has open. */
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
