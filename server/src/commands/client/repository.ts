import { once } from 'node:events'
import { openAsBlob } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { growingPause } from '../../platform/abort.ts'
import { startProcess } from '../../platform/processes/spawn.ts'
import { CommandError } from './command-error.ts'
import { say } from './wait.ts'

export interface LocalCommit {
  readonly root: string
  readonly commit: string
  /** Null on a commit without a branch. */
  readonly branch: string | null
  readonly changed: number
}

/** The app of an earlier deployment, in the clone's git configuration. */
export interface Link {
  readonly url: string
  readonly project: string
  readonly app: string
}

/** Throws a `CommandError` that says how to create a repository. */
export async function readRepository(folder: string): Promise<LocalCommit> {
  const directory = await realpath(folder).catch(() => {
    throw new CommandError(`There is no folder ${folder}.`)
  })
  const root = await folderOfRepository(directory)
  if (root !== directory) {
    throw new CommandError(
      `${directory} is a folder of the repository ${root}. A repository is deployed as a whole: run ` +
        `fairlead deploy ${quoted(root)} --root ${quoted(directory.slice(root.length + 1))}`,
    )
  }
  const commit = await git(root, ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}']).catch(() => {
    throw new CommandError(`${root} has no commit yet. Fairlead deploys what is committed:\n${commitAdvice(root)}`)
  })
  const branch = await git(root, ['symbolic-ref', '--quiet', '--short', 'HEAD']).catch(() => '')
  const changes = await git(root, ['status', '--porcelain', '-z'])
  return {
    root,
    commit: commit.trim(),
    branch: branch.trim() || null,
    changed: changes.split('\0').filter((line) => line !== '').length,
  }
}

/** Throws a `CommandError` that says how to create a repository. */
export async function folderOfRepository(directory: string): Promise<string> {
  const printed = await git(directory, ['rev-parse', '--show-toplevel']).catch((error: unknown) => {
    throw isNoRepository(error) ? noRepository(directory) : error
  })
  return printed.trim()
}

/** Reads a file of a commit; null when the commit has no file at this path. */
export const readFileOfCommit = ({ root, commit }: LocalCommit, path: string): Promise<string | null> =>
  git(root, ['cat-file', 'blob', `${commit}:${path}`]).catch(() => null)

/**
 * Returns a bundle of the commit and its files without history, so that large repositories and shallow clones can be
 * uploaded. `folder` must exist until the upload ends.
 */
export async function bundleCommit({ root, commit, branch }: LocalCommit, folder: string): Promise<Blob> {
  const objects = await git(root, ['rev-list', '--objects', '--no-walk', commit])
  const path = join(folder, 'source.pack')
  await packInto(path, root, objects)
  const ref = branch === null ? 'HEAD' : `refs/heads/${branch}`
  const signature = commit.length === 64 ? '# v3 git bundle\n@object-format=sha256' : '# v2 git bundle'
  return new Blob([`${signature}\n${commit} ${ref}\n\n`, await openAsBlob(path)])
}

/**
 * Writes the pack ourselves, because git writes it into the repository and then moves it, which fails across file
 * systems.
 */
async function packInto(path: string, root: string, objects: string): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    await git(root, ['pack-objects', '--stdout', '--quiet', '--delta-base-offset'], objects, file.fd)
  } finally {
    await file.close()
  }
}

/** Reads the link of a folder; undefined without a repository or without an earlier deployment from it. */
export async function readLink(folder: string): Promise<Link | undefined> {
  const read = (name: string) => git(folder, ['config', '--local', '--get', `fairlead.${name}`]).catch(() => '')
  const [url = '', project = '', app = ''] = await Promise.all(['url', 'project', 'app'].map(read))
  if (project === '') return undefined
  return { url: url.trim(), project: project.trim(), app: app.trim() }
}

/** Stores the link of a folder. A failure is only a warning, because a deployment does not need the link. */
export async function writeLink(folder: string, link: Link): Promise<void> {
  try {
    for (const [name, value] of Object.entries(link)) await configure(folder, `fairlead.${name}`, value)
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    say(`the folder does not remember its app: ${error.message}`)
  }
}

/** The time to wait while another git process writes the configuration, for example during a parallel deployment. */
const configureMs = 2_000

/** Sets a git variable, and retries, because git does not wait for the lock of its configuration. */
async function configure(folder: string, name: string, value: string): Promise<void> {
  const until = performance.now() + configureMs
  const pause = growingPause({ firstMs: 20, longestMs: 500 })
  for (;;) {
    try {
      await git(folder, ['config', '--local', name, value])
      return
    } catch (error) {
      if (performance.now() > until) throw error
      await pause()
    }
  }
}

/** Returns an app name for a folder or an address: the last part, without `.git`. */
export function nameFor(source: string): string {
  const last = basename(source.replace(/[/?#]+$/, '').replace(/^.*:(?!\/)/, ''))
  const name = last
    .replace(/\.git$/, '')
    .replace(/\p{Cc}/gu, '')
    .trim()
  return [...name].slice(0, 100).join('') || 'app'
}

const isNoRepository = (error: unknown): boolean =>
  /not a git repository|must be run in a work tree/i.test(String(error))

const noRepository = (directory: string): CommandError =>
  new CommandError(
    `${directory} is not a git repository. Fairlead deploys what is committed:\n${commitAdvice(directory, ['  git init'])}`,
  )

const commitAdvice = (directory: string, first: readonly string[] = []): string =>
  [
    `  cd ${quoted(directory)}`,
    ...first,
    "  printf '%s\\n' node_modules .env >> .gitignore",
    '  git add . && git commit -m "First commit"',
    '  fairlead deploy',
  ].join('\n')

const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)

/**
 * Runs git as the current user, and returns its output unless the output goes to a file. Rejects with a `CommandError`
 * that quotes git's message.
 */
async function git(directory: string, args: readonly string[], input = '', file?: number): Promise<string> {
  // A repository's configuration may name a program as its file system monitor.
  const child = startProcess('git', ['-c', 'core.fsmonitor=false', ...args], {
    cwd: directory,
    stdio: ['pipe', file ?? 'pipe', 'pipe'],
  })
  const ended = once(child, 'close').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    throw new CommandError('git is not installed, or not on the PATH.')
  })
  // Git may end before it has read everything; its exit status says why.
  child.stdin?.on('error', () => undefined).end(input)
  const [[code, signal], stdout, stderr] = await Promise.all([ended, textOf(child.stdout), textOf(child.stderr)])
  if (code !== 0) throw new CommandError(`git: ${stderr.trim() || `it ended with ${code ?? signal}`}`)
  return stdout
}

/** Returns the text of a stream; the stream breaks when the program cannot start. */
const textOf = async (stream: Readable | null): Promise<string> =>
  Buffer.concat((await stream?.toArray().catch(() => [])) ?? []).toString()
