export interface SourceTree {
  /**
   * True when the tree contains this file or folder. Unknown in large repositories: files deep inside, and files in
   * folders of installed packages.
   */
  has(path: string): boolean
  /** Returns the sorted names in a folder; `.` is the top. None for an unknown folder. */
  list(folder: string): readonly string[]
  /**
   * Returns the text of a file that a detector reads, or the beginning of a lock file; undefined for a file that is
   * missing, too large, or not a regular file.
   */
  read(path: string): string | undefined
}

/** The folders besides the top that may contain a finished static site. */
export const SITE_FOLDERS = ['public', 'dist'] as const

/** More than any real package.json. */
export const LARGEST_FILE = 1024 * 1024

export function within(files: SourceTree, folder: string): SourceTree {
  if (folder === '.') return files
  const path = (name: string) => (name === '.' ? folder : `${folder}/${name}`)
  return {
    has: (name) => files.has(path(name)),
    list: (name) => files.list(path(name)),
    read: (name) => files.read(path(name)),
  }
}
