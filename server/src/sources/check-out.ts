import { chown, lstat, mkdir, readdir, realpath, rm } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { OsUser } from '../platform/users.ts'
import { isTooLarge, largeError, refusedObject, succeed } from './fetch-errors.ts'
import { type Git, harmlessFaults } from './git.ts'
import { type CacheFolder, type GitCache, packIn } from './git-cache.ts'
import { SourceError } from './source-error.ts'
import { parseGitmodules, type Submodule } from './submodules.ts'
import { createTreeReader, type TreeSummary } from './tree-limits.ts'

export interface PinnedSubmodule extends Submodule {
  readonly hash: string
}

export interface CheckOutOptions {
  /** The user that git runs as; `null` for the server's user. */
  readonly user: OsUser | null
  /** The limit for all files of a commit together. */
  readonly mostBytes: number
}

interface CheckedOut {
  readonly submodules: readonly PinnedSubmodule[]
  /** The information in the commit; null when it could not be read. */
  readonly info: CommitInfo | null
}

/**
 * Lists the files of a commit, then, after an empty entry, the commit's information. Writes the files only when told
 * to, because the list may be too long. The arguments are the repository, the folder, the commit and the format of the
 * information. Without an index, git writes every file.
 */
const script = `git --git-dir="$1" ls-tree -r -t -l -z --full-tree "$3" && printf '\\0' || exit
git --git-dir="$1" log -1 --encoding=UTF-8 --no-show-signature --format="$4" "$3" --
read -r answer && [ "$answer" = write ] || exit 1
exec git -c core.bare=false --git-dir="$1" --work-tree="$2" read-tree --reset -u "$3"`

/** Writes the files of a commit into a folder. Rejects with a `SourceError`. */
export async function checkOut(
  git: Git,
  cache: CacheFolder,
  commit: string,
  directory: string,
  options: CheckOutOptions & { readonly signal: AbortSignal },
): Promise<CheckedOut> {
  const { signal, user, mostBytes } = options
  await mkdir(directory, { recursive: true })
  if (user !== null) await chown(directory, user.uid, user.gid)
  await rm(join(cache.path, 'index'), { force: true })
  const listed = Promise.withResolvers<string>()
  const [tree, said] = [createTreeReader(mostBytes), createCommitReader()]
  const onOutput = splitAtEmpty(tree.read, said.read, () => listed.resolve('write\n'))
  const writing = { writable: [cache.path, directory], signal, onOutput, input: listed.promise }
  await succeed(git.script(script, [cache.path, directory, commit, commitFormat], writing))
  const read: Read = (args, onOutput) =>
    git.run([`--git-dir=${cache.path}`, ...args], { writable: [cache.path], signal, onOutput })
  return { submodules: await submodulesOf(read, commit, tree.summary()), info: said.info() }
}

/**
 * Reads entries that end with a zero byte. Bytes up to the first empty entry go to `before`, all later bytes to
 * `after`.
 */
function splitAtEmpty(
  before: (chunk: Buffer) => void,
  after: (chunk: Buffer) => void,
  onEmpty: () => void,
): (chunk: Buffer) => void {
  let isAfter = false
  /** The beginning counts as the end of an entry, because the first entry may be empty. */
  let last = 0
  return (chunk) => {
    if (isAfter) return after(chunk)
    for (let at = chunk.indexOf(0); at !== -1; at = chunk.indexOf(0, at + 1)) {
      if ((at === 0 ? last : chunk[at - 1]) !== 0) continue
      before(chunk.subarray(0, at))
      isAfter = true
      onEmpty()
      return after(chunk.subarray(at + 1))
    }
    before(chunk)
    last = chunk.at(-1) ?? last
  }
}

type Read = (args: readonly string[], onOutput: (chunk: Buffer) => void) => ReturnType<Git['run']>

/** Enough for a hundred submodules. */
const mostGitmodulesBytes = 1_000_000

async function submodulesOf(
  read: Read,
  commit: string,
  { submodules, hasGitmodules }: TreeSummary,
): Promise<PinnedSubmodule[]> {
  if (!hasGitmodules || submodules.size === 0) return []
  const chunks: Buffer[] = []
  let length = 0
  const { code } = await read(['config', '--blob', `${commit}:.gitmodules`, '--list', '-z'], (chunk) => {
    length += chunk.length
    if (length > mostGitmodulesBytes) throw tooLong
    chunks.push(chunk)
  })
  return (code === 0 ? parseGitmodules(Buffer.concat(chunks).toString()) : []).flatMap((submodule) => {
    const hash = submodules.get(submodule.path)
    // An entry that is only in the file is not a submodule.
    return hash === undefined ? [] : [{ ...submodule, hash }]
  })
}

const tooLong = new SourceError(
  'too_large',
  'The file .gitmodules is larger than 1 MB. Remove the entries of submodules that no longer exist.',
)

/** True for the empty folder that git creates for a submodule. Anything else there is an attack. */
export async function isEmptyFolderIn(root: string, path: string): Promise<boolean> {
  const stats = await lstat(path).catch(() => undefined)
  if (stats?.isDirectory() !== true || !(await realpath(path)).startsWith((await realpath(root)) + sep)) return false
  return (await readdir(path)).length === 0
}

/** The objects of an uploaded source: one commit, with or without its history. */
export interface UploadedPack {
  readonly path: string
  readonly commit: string
}

/**
 * Checks the objects of an upload like a fetch, writes the files of its commit into a folder, and returns the commit's
 * submodules and information. The project's cache keeps only the last upload. Rejects with a `SourceError`.
 */
export async function checkOutUploaded(
  given: { readonly git: Git; readonly cache: GitCache; readonly checkOut: CheckOutOptions },
  target: { readonly projectId: string; readonly pack: UploadedPack; readonly directory: string },
  signal: AbortSignal,
): Promise<CheckedOut> {
  const { git, cache } = given
  const { commit, path } = target.pack
  const format = commit.length === 64 ? 'sha256' : 'sha1'
  return cache.use(target.projectId, { url: 'uploaded', format }, signal, async (folder) => {
    await folder.fill({ pack: path, commit })
    const run = (...args: string[]) =>
      git.run([`--git-dir=${folder.path}`, ...args], { writable: [folder.path], signal })
    const faults = harmlessFaults.map((fault) => `${fault}=ignore`).join(',')
    const indexed = await run('index-pack', `--strict=${faults}`, packIn(folder))
    const objection = refusedObject(indexed)
    if (objection !== null) throw objection
    if (isTooLarge(indexed)) throw largeError()
    if (indexed.code !== 0) throw damaged()
    const { stdout } = await run('cat-file', '-t', commit)
    if (stdout.trim() !== 'commit') {
      throw new SourceError('unknown_commit', 'The head of the uploaded bundle is not a commit. Bundle a branch.')
    }
    return checkOut(git, folder, commit, target.directory, { ...given.checkOut, signal })
  })
}

const damaged = (): SourceError =>
  new SourceError(
    'source_damaged',
    'Objects of the uploaded bundle are missing or damaged. Run git fsck in the repository, and git fetch --unshallow ' +
      'if it is a shallow clone, then make and upload the bundle again.',
  )

export interface CommitInfo {
  readonly message: string
  readonly author: string
  /** The time of the commit, in ISO 8601 with its time zone. */
  readonly at: string
}

/** A limit, because a message can have any length. */
const mostBytes = 8 * 1024

const commitFormat = '%an%x00%cI%x00%B'

/** Reads a commit in this format. `info` returns `null` when the commit is incomplete; nothing depends on it. */
function createCommitReader(): { read(chunk: Buffer): void; info(): CommitInfo | null } {
  const chunks: Buffer[] = []
  let bytes = 0
  return {
    read(chunk) {
      if (bytes < mostBytes) chunks.push(chunk.subarray(0, mostBytes - bytes))
      bytes += chunk.length
    },
    info() {
      const [author, at, message] = Buffer.concat(chunks).toString('utf8').split('\0')
      return author === undefined || at === undefined || message === undefined ? null : { author, at, message }
    },
  }
}
