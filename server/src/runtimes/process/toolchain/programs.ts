import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { reachableCopy } from '../../../platform/machine/reach.ts'
import type { OsUser } from '../../../platform/users.ts'
import { prepareBin } from './prepare-bin.ts'

/** The programs that builds and apps run with. All paths are absolute and readable for the users of apps. */
export interface Programs {
  readonly node: string
  /** The folder that comes first on PATH. */
  readonly bin: string
  /** All that they read besides the system's files. */
  readonly paths: readonly string[]
}

/** Joins control groups before a command begins; runs with the server's own rights. */
export const enterProgram = compiled('runtimes/process/launch/enter.js')

/** Bundled by the build into one file without dependencies. */
const staticServerBundle = compiled('static-server/index.js')

/**
 * Prepares the server's own Node, the package managers that are installed with it and the server of static sites.
 * Copies them to `runtime` where `user` could not read the installed ones.
 */
export async function preparePrograms(options: {
  readonly runtime: string
  readonly bin: string
  readonly user: OsUser | null
}): Promise<Programs> {
  const { runtime, bin, user } = options
  const packageCopy = async (name: string): Promise<string> => {
    const manifest = findPackageJSON(name, import.meta.url)
    if (manifest === undefined) throw new Error(`${name} is not installed`)
    const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string }
    const copyTo = join(runtime, `${name.replace('/', '-')}-${version}`)
    return reachableCopy({ source: dirname(manifest), copyTo, user })
  }
  const [node, npm, pnpm, yarn, modernYarn, staticServer] = await Promise.all([
    reachableCopy({ source: process.execPath, copyTo: join(runtime, `node-${process.version}`), user }),
    packageCopy('npm'),
    packageCopy('pnpm'),
    packageCopy('yarn'),
    packageCopy('@yarnpkg/cli-dist'),
    reachableCopy({
      source: staticServerBundle,
      copyTo: join(runtime, await nameByContent(staticServerBundle)),
      user,
    }),
  ])
  await prepareBin({
    directory: bin,
    node,
    npmCli: join(npm, 'bin', 'npm-cli.js'),
    pnpmCli: join(pnpm, 'bin', 'pnpm.cjs'),
    yarnCli: join(yarn, 'bin', 'yarn.js'),
    modernYarnCli: join(modernYarn, 'bin', 'yarn.js'),
    staticServer,
  })
  return { node, bin, paths: [bin, node, npm, pnpm, yarn, modernYarn, staticServer] }
}

/** Returns the path of a compiled program, whether this module itself is compiled or not. */
function compiled(path: string): string {
  return fileURLToPath(new URL(`../../../../dist/${path}`, import.meta.url))
}

async function nameByContent(file: string): Promise<string> {
  const hash = createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
  return `static-server-${hash.slice(0, 16)}.mjs`
}
