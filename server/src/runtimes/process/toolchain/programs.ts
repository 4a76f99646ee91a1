import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { programFile } from '../../../platform/machine/own-files.ts'
import { copyOnce, makePassableDirectory, reachableCopy } from '../../../platform/machine/reach.ts'
import type { OsUser } from '../../../platform/users.ts'
import { type OwnTools, prepareBin } from './prepare-bin.ts'

/** The programs that builds and apps run with. All paths are absolute and readable for the users of apps. */
export interface Programs {
  readonly node: string
  /** The folder that comes first on PATH. */
  readonly bin: string
  /** The program that becomes a command of an app; see `launch/enter.ts`. */
  readonly enter: string
  /** The same programs, each by itself. */
  readonly own: OwnTools
  /** The folder for tools that apps ask for in other versions. */
  readonly tools: string
  /** Those that all builds and apps run with: the first of PATH, Node and the package managers. */
  readonly shared: readonly string[]
  /** All that they read besides the system's files. */
  readonly paths: readonly string[]
}

/** The compiled `launch/enter.ts`, a single file without dependencies. */
export const enterProgram = programFile('enter')

/**
 * Prepares the server's own Node and the package managers that are installed with it. Copies them to `runtime` where `user`
 * could not read the installed ones.
 */
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
  // A copy, so that it is a module by its name wherever it is seen.
  const enter = join(runtime, await nameByContent('enter', enterProgram))
  const [node, npm, pnpm, yarn, modernYarn] = await Promise.all([
    reachableCopy({ source: process.execPath, copyTo: join(runtime, `node-${process.version}`), user }),
    packageCopy('npm'),
    packageCopy('pnpm'),
    packageCopy('yarn'),
    packageCopy('@yarnpkg/cli-dist'),
    copyOnce({ source: enterProgram, copyTo: enter }),
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
  // Sandboxes show the folder, so that it must exist before the first of them.
  await makePassableDirectory(tools)
  const packages = [npm, pnpm, yarn, modernYarn].map(({ path }) => path)
  const shared = [bin, node, ...packages]
  return { node, bin, enter, own, tools, shared, paths: [...shared, tools, enter] }
}

async function nameByContent(name: string, file: string): Promise<string> {
  const hash = createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
  return `${name}-${hash.slice(0, 16)}.mjs`
}
