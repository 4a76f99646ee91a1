/** One command: an argument array, never a shell line that the server composed. */
export interface Command {
  readonly argv: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
  /** Variables that name folders of the build's cache, which may be emptied between any two builds: `{ PIP_CACHE_DIR: 'pip' }`. */
  readonly caches?: Readonly<Record<string, string>>
}
