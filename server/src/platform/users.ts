/** The operating-system user that a child process runs as. Where `null` is allowed, it means the user of the server. */
export interface OsUser {
  readonly uid: number
  readonly gid: number
}

/** An unprivileged user, for a program that root starts. */
export interface LesserUser {
  readonly user: OsUser
  /** The path of util-linux's `setpriv`, which gives up the rights of root. */
  readonly setpriv: string
  /** True when the program must listen on ports below 1024, and keeps the right to do so. */
  readonly hasLowPorts: boolean
}

/** Returns the start of a command line. The program after it has no rights of root, except for low ports if needed. */
export function giveUpRights({ user, setpriv, hasLowPorts }: LesserUser): string[] {
  const kept = hasLowPorts ? '-all,+net_bind_service' : '-all'
  const sets = ['inh-caps', 'ambient-caps', 'bounding-set'].map((set) => `--${set}=${kept}`)
  return [setpriv, `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups', ...sets, '--no-new-privs', '--']
}
