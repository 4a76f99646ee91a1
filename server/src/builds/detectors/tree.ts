/** What planning a build needs to know of the files of a release. */
export interface SourceTree {
  /**
   * Whether the tree holds this path: names at its top and in the app's folder, and `index.html` in the folders that a
   * static site may use.
   */
  has(path: string): boolean
  /**
   * The text of a file that decides the plan, the beginning of it for a yarn.lock; `undefined` when it is missing, no
   * plain file, or too large.
   */
  read(path: string): string | undefined
}

/** The folders besides the top that a finished static site may lie in. */
export const SITE_FOLDERS = ['public', 'dist'] as const

/** More than any real package.json. */
export const LARGEST_FILE = 1024 * 1024
