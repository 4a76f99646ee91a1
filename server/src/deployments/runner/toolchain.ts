import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** The server of static sites, by a name that stays the same when a later server brings a newer one. */
export const staticServerName = 'fairlead-static'

/**
 * Fills the folder that comes first on the PATH of builds and apps: `node`, `npm` and `npx` of the server's choice, and
 * `fairlead-static`, which serves a folder.
 * Replaces what is there, so that a later server brings its own versions. All paths are absolute and must be readable
 * by the users that apps run as.
 *
 * @param options.npmCli npm's `bin/npm-cli.js`; npx lies beside it
 */
export async function prepareBin(options: {
  readonly directory: string
  readonly node: string
  readonly npmCli: string
  readonly staticServer: string
}): Promise<void> {
  const { directory, node, npmCli, staticServer } = options
  await mkdir(directory, { recursive: true })
  await chmod(directory, 0o755)
  await replace(join(directory, 'node'), (path) => symlink(node, path))
  await replace(join(directory, 'npm'), (path) => writeWrapper(path, node, npmCli))
  await replace(join(directory, staticServerName), (path) => writeWrapper(path, node, staticServer, '"$@" "$PORT"'))
  await replace(join(directory, 'npx'), (path) => writeWrapper(path, node, join(dirname(npmCli), 'npx-cli.js')))
}

/** A running build keeps what it has: the new file takes the old one's place in one step. */
async function replace(path: string, make: (path: string) => Promise<void>): Promise<void> {
  const fresh = `${path}.new`
  await rm(fresh, { force: true })
  await make(fresh)
  await rename(fresh, path)
}

async function writeWrapper(path: string, node: string, script: string, args = '"$@"'): Promise<void> {
  await writeFile(path, `#!/bin/sh\nexec ${quote(node)} ${quote(script)} ${args}\n`)
  await chmod(path, 0o755)
}

/** One word of POSIX shell (section 2.2.2, single quotes). */
const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
