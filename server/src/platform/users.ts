/** The operating-system user that a child process runs as. Where `null` is allowed, it means the user of the server. */
export interface OsUser {
  readonly uid: number
  readonly gid: number
}
