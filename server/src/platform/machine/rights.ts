import type { OsUser } from '../users.ts'

/** An unprivileged user, for a program that root starts. */
export interface LesserUser {
  readonly user: OsUser
  /** util-linux's program that gives up the rights of root. */
  readonly setpriv: string
  /** True when the program must listen on ports below 1024: it keeps that one right. */
  readonly hasLowPorts: boolean
}

/** Returns the command line before a program that gives up all rights of root but that to low ports, where it is needed. */
export function giveUpRights({ user, setpriv, hasLowPorts }: LesserUser): string[] {
  const kept = hasLowPorts ? '-all,+net_bind_service' : '-all'
  const sets = ['inh-caps', 'ambient-caps', 'bounding-set'].map((set) => `--${set}=${kept}`)
  return [setpriv, `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups', ...sets, '--no-new-privs', '--']
}
