import { SourceError } from './source-error.ts'

/** Limits on the files of a commit. A commit with more is not an app, or attacks the disk. */
const mostEntries = 200_000
const deepest = 100
const longestPath = 2_000
/** The smallest space of an entry on the disk, in bytes. */
const entryBytes = 4_096

/** The results of a commit's listing, without its size. */
export interface TreeSummary {
  readonly submodules: ReadonlyMap<string, string>
  readonly hasGitmodules: boolean
}

/**
 * Reads the output of `git ls-tree -r -t -l -z` as it arrives, and throws a `SourceError` as soon as a limit on number,
 * depth or size is exceeded: a tree of some kilobytes can name any number of files.
 */
export function createTreeReader(mostBytes: number): { read(chunk: Buffer): void; summary(): TreeSummary } {
  const submodules = new Map<string, string>()
  let hasGitmodules = false
  let entries = 0
  let bytes = 0
  let rest: Buffer = Buffer.alloc(0)

  const entry = (line: string): void => {
    const [facts = '', path = ''] = splitOnce(line, '\t')
    const [mode, , hash = '', size = '-'] = facts.split(/ +/)
    entries += 1
    bytes += entryBytes * Math.max(1, Math.ceil((size === '-' ? 0 : Number(size)) / entryBytes))
    if (entries > mostEntries) throw tooLarge(`has more than ${mostEntries} files and folders`)
    if (!(bytes <= mostBytes)) throw tooLarge(`takes more than ${mostBytes / 1_000_000} MB on the disk`)
    if (path.length > longestPath || path.split('/').length > deepest) {
      throw tooLarge(`has folders deeper than ${deepest}, or a path longer than ${longestPath} characters`)
    }
    if (mode === '160000') submodules.set(path, hash)
    if (path === '.gitmodules' && mode?.startsWith('100')) hasGitmodules = true
  }

  return {
    read(chunk) {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      let from = 0
      for (let end = rest.indexOf(0, from); end !== -1; end = rest.indexOf(0, from)) {
        entry(rest.toString('utf8', from, end))
        from = end + 1
      }
      rest = rest.subarray(from)
      if (rest.length > 4 * longestPath) throw tooLarge(`has a path longer than ${longestPath} characters`)
    },
    summary: () => ({ submodules, hasGitmodules }),
  }
}

const tooLarge = (what: string): SourceError =>
  new SourceError('too_large', `The commit ${what}. Leave out what the app does not need.`)

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
