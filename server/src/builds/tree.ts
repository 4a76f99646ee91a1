/** The files of a release, as far as detectors need to know them. */
export interface SourceTree {
  /**
   * True when the tree holds this file or folder. Of a large repository, the files deep inside are unknown, as are those in
   * folders of installed packages.
   */
  has(path: string): boolean
  /** Returns the names in a folder, sorted; `.` is the top. None for a folder that is unknown. */
  list(folder: string): readonly string[]
  /**
   * Returns the text of a file that a detector reads, or the beginning of a lock file; undefined when it is missing, no
   * plain file, or too large.
   */
  read(path: string): string | undefined
}

/** The folders besides the top that a finished static site may lie in. */
export const SITE_FOLDERS = ['public', 'dist'] as const

/** More than any real package.json. */
export const LARGEST_FILE = 1024 * 1024

/** Returns the tree as it is seen from one of its folders. */
export function within(files: SourceTree, folder: string): SourceTree {
  if (folder === '.') return files
  const path = (name: string) => (name === '.' ? folder : `${folder}/${name}`)
  return {
    has: (name) => files.has(path(name)),
    list: (name) => files.list(path(name)),
    read: (name) => files.read(path(name)),
  }
}
