/** An argument array, never a shell line that the server composed. */
export interface Command {
  readonly argv: readonly [string, ...string[]]
  /** For a lock file that does not match the app's list of packages. */
  readonly unlocked?: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
  /** Added to `NODE_OPTIONS`, also when the app or its user sets it. */
  readonly nodeOptions?: readonly string[]
  /**
   * Variables for folders in the build cache, which may be emptied between any two builds: `{ PIP_CACHE_DIR: 'pip' }`.
   */
  readonly caches?: Readonly<Record<string, string>>
  /**
   * In these variables, `{memory}` stands for the megabytes of the command, and `{cache}` for the folder of the build
   * cache, only in builds: `{ JAVA_TOOL_OPTIONS: '-XX:MaxRAM={memory}m' }`.
   */
  readonly settings?: Readonly<Record<string, string>>
  /** The container image's files are read-only; for runtimes of images. */
  readonly readOnly?: true
}
