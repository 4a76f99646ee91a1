import { type CheckedOut, type CheckOutOptions, checkOut } from './check-out.ts'
import { isTooLarge, largeError, refusedObject } from './fetch-errors.ts'
import { type Git, harmlessFaults } from './git.ts'
import { type GitCache, packIn } from './git-cache.ts'
import { SourceError } from './source-error.ts'

/** The objects of an uploaded source: those of one commit, with its history or without. */
export interface UploadedPack {
  /** The path of the pack. */
  readonly path: string
  readonly commit: string
}

/**
 * Checks the objects of an upload as a fetch does, writes the files of its commit into a folder, and returns the submodules
 * that the commit has, and what it says. Nothing stays in the cache of the project but the last upload. Rejects with a `SourceError`.
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
      throw new SourceError('unknown_commit', 'The head of the uploaded bundle is no commit. Bundle a branch.')
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
