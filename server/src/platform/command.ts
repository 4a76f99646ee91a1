/** One command: an argument array, never a shell line that the server composed. */
export interface Command {
  readonly argv: readonly [string, ...string[]]
  /** The same without following a lock file exactly, for one that does not fit the app's own list of packages. */
  readonly unlocked?: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
  /** Options that are added to those in `NODE_OPTIONS`, whoever sets it. */
  readonly nodeOptions?: readonly string[]
  /** Variables that name folders of the build's cache, which may be emptied between any two builds: `{ PIP_CACHE_DIR: 'pip' }`. */
  readonly caches?: Readonly<Record<string, string>>
  /**
   * Variables in which `{memory}` stands for the megabytes that the command may use, and `{cache}` for the folder of the
   * build's cache; one with a cache is set in builds alone: `{ JAVA_TOOL_OPTIONS: '-XX:MaxRAM={memory}m' }`.
   */
  readonly settings?: Readonly<Record<string, string>>
  /** True when the files of its container image may not be written to; for runtimes of images. */
  readonly readOnly?: true
}
