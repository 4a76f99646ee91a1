import type { GitResult } from './git.ts'
import type { GitSource } from './git-url.ts'
import { SourceError } from './source-error.ts'

/*
 * Git's messages are read here but never passed on: they quote unreadable files, and anything that the remote sends.
 * Owners see only the sentences in this file.
 */

const missing = /couldn't find remote ref|not our ref|unadvertised object|no such remote ref/i
const refused = /could not read Username|Authentication failed|Permission denied|error: 40[134]|repository .*not found/i
const redirected = /redirect|error: 30\d/i

const otherHostKey = /Host key verification failed|HOST IDENTIFICATION HAS CHANGED/i

/** The reasons why git cannot reach a repository, each with a clause for the message. The first match counts. */
const obstacles: readonly (readonly [RegExp, string])[] = [
  [
    /Could not resolve host(name)?|Name or service not known|Temporary failure in name resolution/i,
    'its host has no address',
  ],
  [/Connection refused/i, 'its host refuses the connection'],
  [/timed out|Timeout/i, 'its host does not answer in time'],
  [
    /Connection (reset|closed)|unexpected disconnect|early EOF|hung up unexpectedly|RPC failed/i,
    'its host broke the connection off',
  ],
  [
    /SSL|certificate|TLS/i,
    "its certificate is not trusted; the operator of this server names an authority's file as GIT_SSL_CAINFO in FAIRLEAD_BUILD_ENV",
  ],
  [/No user exists for uid/i, 'ssh needs bubblewrap where the server is root'],
  [/mismatched algorithms/i, 'its objects have names in SHA-256: give commit as well'],
  [/dubious ownership|unable to (open|read|access).*: Permission denied/i, 'its files cannot be read'],
  [/error: 5\d\d/i, 'its host answers with an error'],
  [/does not appear to be a git repository|not found|not a git repository/i, 'there is no git repository'],
  [/Failed to connect|Couldn't connect|unable to access|Could not read from remote/i, 'its host cannot be reached'],
]

/** Faults in received data. The content of objects is never quoted. */
const broken =
  /missing|corrupt|bad (tree|object|config|signature|ref|pack)|fsck|index-pack failed|invalid (object|index-pack|path|sha1)|did not receive expected|unresolved deltas|inflate|nonexistent|broken|unable to read|protocol error|bad line length/i
/** Git's messages when it exceeds the limits in `GitOptions`. */
const tooLarge = /Out of memory|malloc|mmap|cannot allocate|File too large|file size limit|fork.*unavailable/i
const full = /No space left on device|Disk quota exceeded/i

/** Returns the error for `what`, a reference or a commit's hash, that could not be fetched. */
export function fetchError(result: GitResult, source: GitSource, what: string): SourceError {
  const { stderr } = result
  const error = (...words: ConstructorParameters<typeof SourceError>) => new SourceError(...words)
  // First, because git quotes the object, which may contain anything.
  const objection = refusedObject(result)
  if (objection !== null) return objection
  if (isTooLarge(result)) return largeError()
  if (otherHostKey.test(stderr)) return hostKeyError(source)
  if (missing.test(stderr)) {
    const branch = /^refs\/heads\/(.+)$/.exec(what)?.[1]
    const isTip = branch !== undefined || what === 'HEAD'
    // The remote has named the tip, but does not return the commit that it named.
    if (source.protocol === 'file' && isTip && /not our ref/i.test(stderr)) {
      return unreadableOrDamaged(source)
    }
    if (branch !== undefined) {
      return error('unknown_branch', `${source.url} has no branch ${branch}.`, 'Check branch.')
    }
    return error('unknown_commit', `${source.url} has no commit ${what}, or does not give it out.`, 'Check commit.')
  }
  if (refused.test(stderr)) return source.protocol === 'file' ? unreadable(source) : refusedError(source)
  if (redirected.test(stderr)) {
    const problem = `${source.url} redirects elsewhere, which is not followed.`
    return error('repository_unreachable', problem, 'Use the address that it leads to.')
  }
  const obstacle = obstacles.find(([pattern]) => pattern.test(stderr))?.[1]
  if (source.protocol === 'file') {
    if (/dubious ownership/i.test(stderr)) return unreadable(source)
    // The repository was found before. Git prints the same message for files that it may not read and for damaged
    // files.
    if (/not appear to be a git repository/i.test(stderr)) return unreadableOrDamaged(source)
    return error('repository_unreachable', `${source.url} cannot be fetched: ${damaged}`)
  }
  const reason = obstacle ?? (broken.test(stderr) ? damaged : 'git says no more')
  return error(
    'repository_unreachable',
    `${source.url} cannot be fetched (${reason}).`,
    'Check git_url, and that the server reaches that host.',
  )
}

const damaged = 'it is incomplete or damaged. Run git fsck in it.'

const hostKeyError = ({ url }: GitSource): SourceError =>
  new SourceError(
    'host_key_changed',
    `The host of ${url} has another ssh key than before: its owner has changed it, or somebody intercepts the connection.`,
    'Ask its owner. If the new key is right, forget the old key: fairlead git forget APP, or Settings of the app in the dashboard.',
  )

const refusedError = ({ url }: GitSource): SourceError =>
  new SourceError(
    'repository_refused',
    `${url} does not exist or cannot be read with the credentials given.`,
    'Check git_url, and git_token or the stored credentials of the app.',
  )

const unreadable = ({ url }: GitSource): SourceError =>
  new SourceError(
    'repository_refused',
    `${url} has files that other users may not read, and git runs as one. Run chmod -R go+rX in its git folder.`,
  )

const unreadableOrDamaged = ({ url }: GitSource): SourceError =>
  new SourceError(
    'repository_refused',
    `Git cannot read the files of ${url}. Where the server is root, git runs as another user, who must be allowed to read ` +
      'them: run chmod -R go+rX in its git folder. Otherwise they are damaged: run git fsck in it.',
  )

/** The faults for which git-fsck(1) refuses objects, by their names there. */
const faults: Readonly<Record<string, string>> = {
  hasDot: 'a file or folder named “.”',
  hasDotdot: 'a file or folder named “..”',
  hasDotgit: 'a file or folder named .git, or a name that some file systems take for .git',
  fullPathname: 'a name with a slash in it',
  emptyName: 'a file without a name',
  largePathname: 'a name that is too long',
  duplicateEntries: 'two files of one name',
  treeNotSorted: 'files in the wrong order',
  nullSha1: 'a file or submodule whose hash is zero',
  badTree: 'a list of files that cannot be read',
  gitmodulesBlob: 'a .gitmodules that is not a file',
  gitmodulesLarge: 'a .gitmodules that is too large',
  gitmodulesSymlink: 'a .gitmodules that is a link',
  gitmodulesName: 'a submodule whose name leads out of its folder',
  gitmodulesPath: 'a submodule whose path looks like an option',
  gitmodulesUpdate: 'a submodule that is updated by a command',
  gitattributesBlob: 'a .gitattributes that is not a file',
  gitattributesLarge: 'a .gitattributes that is too large',
  gitattributesLineLength: 'a .gitattributes with lines that are too long',
  missingAuthor: 'no author',
  missingCommitter: 'no committer',
  multipleAuthors: 'several authors',
  badDate: 'an invalid date',
  nulInCommit: 'a zero byte in its message',
  nulInHeader: 'a zero byte in its header',
  unterminatedHeader: 'a header without an end',
}

/**
 * Returns the error for an object that git's check refuses; null when it refuses nothing. Names the fault, but does not
 * quote the object.
 */
export function refusedObject({ stderr }: GitResult): SourceError | null {
  const [, object = '', fault] = /^error: object ([0-9a-f]{40}(?:[0-9a-f]{24})?): (\w{1,60}): /m.exec(stderr) ?? []
  if (fault === undefined) return null
  const what = Object.hasOwn(faults, fault) ? faults[fault] : 'something that its check does not allow'
  const short = object.slice(0, 12)
  return new SourceError(
    'object_refused',
    `Git refuses the object ${short} of the commit or its history: it has ${what} (${fault} in git-fsck).`,
    `Find its commits with git log --all --format='%H %T' | grep ${short}, or, for a folder below the top, with git log --all -t --find-object=${short}, and make commits without it.`,
  )
}

export const largeError = (): SourceError =>
  new SourceError(
    'too_large',
    'The repository needs more memory or larger files than git may use here. Leave out large files that the app does not need.',
  )

export function isTooLarge({ exceeded, code, stderr }: GitResult): boolean {
  return exceeded || (code !== 0 && tooLarge.test(stderr))
}

/** Returns the error for a hash that belongs to no commit; `commit` is the commit that a tag stands for, or empty. */
export function notCommit(source: GitSource, hash: string, commit: string): SourceError {
  const advice = /^[0-9a-f]+$/.test(commit) ? `is a tag of the commit ${commit}. Give that one.` : 'is not a commit.'
  return new SourceError('unknown_commit', `In ${source.url} ${hash} ${advice}`)
}

/** Resolves with the result; rejects with a `SourceError` when git failed on local files. */
export async function succeed(running: Promise<GitResult>): Promise<GitResult> {
  const result = await running
  if (result.code === 0) return result
  if (isTooLarge(result)) throw largeError()
  const reason = full.test(result.stderr)
    ? 'the disk of the server is full. Tell its operator.'
    : broken.test(result.stderr)
      ? 'objects of the commit are missing or damaged. Run git fsck in the repository, and push again.'
      : 'it has files that cannot be written here, such as names of more than 255 bytes.'
  throw new SourceError('checkout_failed', `git could not check the commit out: ${reason}`)
}
