/** The files of a release, as far as detectors need to know them. */
export interface SourceTree {
  /**
   * True when the tree holds this path: one of the names at its top or in the app's folder, or `index.html` in the
   * folders that a static site may use.
   */
  has(path: string): boolean
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
  return { has: (path) => files.has(`${folder}/${path}`), read: (path) => files.read(`${folder}/${path}`) }
}
