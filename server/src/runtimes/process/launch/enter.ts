/**
 * A program of its own that joins control groups and becomes another: `node enter.js`, with what to do on descriptor 3.
 * Joined before the command exists, so that nothing of it is ever outside. It runs with the server's rights, and so
 * without a word of the app's in its environment or arguments.
 */
import { closeSync, readFileSync, writeFileSync } from 'node:fs'

/** What `launch` writes. */
export interface Entrance {
  /** Files to write one's pid to. */
  readonly groups: readonly string[]
  readonly user: { readonly uid: number; readonly gid: number } | null
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

const { groups, user, file, args, env } = JSON.parse(readFileSync(3, 'utf8')) as Entrance
closeSync(3)
for (const group of groups) writeFileSync(group, String(process.pid))
if (user !== null) {
  process.setgroups?.([])
  process.setgid?.(user.gid)
  process.setuid?.(user.uid)
}
// Node ignores SIGPIPE, and what is ignored stays so in the next program; what is handled does not.
process.on('SIGPIPE', () => undefined)
process.execve?.(file, [file, ...args], env)
