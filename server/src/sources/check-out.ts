import { lstat, mkdir, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { succeed } from './fetch-errors.ts'
import type { Git, GitResult } from './git.ts'
import type { CacheFolder } from './git-cache.ts'
import { parseGitmodules, type Submodule } from './submodules.ts'

/** A submodule at the commit that its parent names. */
export interface PinnedSubmodule extends Submodule {
  readonly hash: string
}

/** Writes the files of a commit into a folder, and returns the submodules that the commit has. */
export async function checkOut(
  git: Git,
  cache: CacheFolder,
  commit: string,
  directory: string,
  signal: AbortSignal,
): Promise<PinnedSubmodule[]> {
  await mkdir(directory, { recursive: true })
  const run = (...args: string[]): Promise<GitResult> => git(args, { cwd: directory, signal })
  const format = commit.length === 64 ? 'sha256' : 'sha1'
  await succeed(run('init', '--quiet', '--template=', `--object-format=${format}`))
  await mkdir(join(directory, '.git', 'objects', 'info'), { recursive: true })
  await writeFile(join(directory, '.git', 'objects', 'info', 'alternates'), `${join(cache.path, 'objects')}\n`)
  await succeed(run('checkout', '--quiet', '--force', '--detach', commit))
  const submodules = await submodulesOf(run, commit)
  // A release is its files; git's own folder is of no use to it and tells where it came from.
  await rm(join(directory, '.git'), { recursive: true, force: true })
  return submodules
}

async function submodulesOf(run: (...args: string[]) => Promise<GitResult>, commit: string) {
  const listed = await run('config', '--blob', `${commit}:.gitmodules`, '--list', '-z')
  const submodules: PinnedSubmodule[] = []
  for (const submodule of listed.code === 0 ? parseGitmodules(listed.stdout) : []) {
    const entry = await run('ls-tree', '-z', '--full-tree', commit, '--', submodule.path)
    const hash = /^160000 commit ([0-9a-f]+)\t/.exec(entry.stdout)?.[1]
    // One that only the file names is no submodule.
    if (hash !== undefined) submodules.push({ ...submodule, hash })
  }
  return submodules
}

/** True for the empty folder that git makes in place of a submodule; anything else there is an attack. */
export async function isEmptyFolderIn(root: string, path: string): Promise<boolean> {
  const stats = await lstat(path).catch(() => undefined)
  if (stats?.isDirectory() !== true || !(await realpath(path)).startsWith((await realpath(root)) + sep)) return false
  return (await readdir(path)).length === 0
}
