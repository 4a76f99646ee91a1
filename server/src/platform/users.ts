/** The operating-system user that a child process runs as. Elsewhere `null` stands for the user of the server. */
export interface OsUser {
  readonly uid: number
  readonly gid: number
}
