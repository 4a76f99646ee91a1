/** One command: an argument array, never a shell line that the server composed. */
export interface Command {
  readonly argv: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
}
