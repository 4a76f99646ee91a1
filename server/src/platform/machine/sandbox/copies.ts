import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, type Stats, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SystemEntry } from './system.ts'

/** The folder of the copies in a sandbox. */
export const copiesInside = '/.etc'

/**
 * Copies of the files of /etc that sandboxed commands can read, in one folder. A sandbox shows the folder and links that
 * lead into it: a mount for each file takes bubblewrap longer than everything else that it does.
 */
export interface FileCopies {
  /** Absolute. */
  readonly directory: string
  /** Brings the copies up to date, and returns the entries with links to the copies in place of files. */
  linked(system: readonly SystemEntry[]): SystemEntry[]
}

/**
 * @param directory an absolute path; made when it is needed
 * @param folder the folder of the files
 */
export function createFileCopies(directory: string, folder = '/etc'): FileCopies {
  /** Tells the versions of a file apart. */
  const versions = new Map<string, string>()

  const link = (entry: SystemEntry): SystemEntry => {
    const { path } = entry
    if (entry.link !== null || !path.startsWith(`${folder}/`)) return entry
    const name = path.slice(folder.length + 1).replaceAll('/', '_')
    try {
      const stats = statSync(path, { throwIfNoEntry: false })
      if (stats === undefined || !isForEverybody(stats)) {
        versions.delete(path)
        rmSync(join(directory, name), { force: true })
        return entry
      }
      const version = [stats.dev, stats.ino, stats.size, stats.mtimeMs, stats.ctimeMs].join(' ')
      if (versions.get(path) !== version) {
        copy(path, directory, name)
        versions.set(path, version)
      }
      return { ...entry, link: join(copiesInside, name) }
    } catch {
      // The disk may be full: bubblewrap shows the file itself, as far as it exists.
      return entry
    }
  }

  return { directory, linked: (system) => system.map(link) }
}

const isForEverybody = (stats: Stats): boolean => stats.isFile() && (stats.mode & 0o004) !== 0

/** Replaces the copy at once, also for commands that run. */
function copy(from: string, directory: string, name: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o755 })
  const begun = join(directory, `.${name}.${process.pid}`)
  writeFileSync(begun, readFileSync(from))
  chmodSync(begun, 0o644)
  renameSync(begun, join(directory, name))
}
