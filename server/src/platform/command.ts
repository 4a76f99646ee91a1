/** An argument array, never a shell line that the server composed. */
export interface Command {
  readonly argv: readonly [string, ...string[]]
  /** The same command without a strict lock file, for a lock file that does not match the app's list of packages. */
  readonly unlocked?: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
  /** Options that are added to `NODE_OPTIONS`, also when the app or its user sets that variable. */
  readonly nodeOptions?: readonly string[]
  /**
   * Variables for folders in the build cache, which may be emptied between any two builds: `{ PIP_CACHE_DIR: 'pip' }`.
   */
  readonly caches?: Readonly<Record<string, string>>
  /**
   * Variables in which `{memory}` stands for the megabytes that the command may use, and `{cache}` for the folder of
   * the build cache; a variable with `{cache}` is set only in builds: `{ JAVA_TOOL_OPTIONS: '-XX:MaxRAM={memory}m' }`.
   */
  readonly settings?: Readonly<Record<string, string>>
  /** True when the files of the container image are read-only; for runtimes of images. */
  readonly readOnly?: true
}
