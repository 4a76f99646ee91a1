/** An operating-system identity that a child process runs under. `null` elsewhere means: the server's own. */
export interface OsUser {
  readonly uid: number
  readonly gid: number
}
