/**
 * A program that joins control groups and then becomes another program: `node enter.js`, with an `Entrance` as JSON on
 * descriptor 3. It runs in the network of the command.
 *
 * - Without a sandbox it runs with the server's rights, and joins the groups before the command exists, so that nothing of
 *   the command is ever outside them. Its own environment and arguments contain nothing of the app's.
 * - In a sandbox it runs with the app's rights, and joins nothing.
 */
import { closeSync, readFileSync, writeFileSync } from 'node:fs'

/** Written by `launch`. */
export interface Entrance {
  /** Files to write the own pid to. */
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
// Node ignores SIGPIPE. An ignored signal stays ignored in the next program; one with a handler does not.
process.on('SIGPIPE', () => undefined)
process.execve?.(file, [file, ...args], env)
