/**
 * A program that joins control groups and then executes another program: `node enter.js`, with an `Entrance` as JSON on
 * descriptor 3. It runs in the network of the command.
 *
 * - Without a sandbox it runs with the rights of the server, and joins the groups before the command exists, so the
 *   command is never outside the groups. Its environment and arguments contain nothing from the app.
 * - In a sandbox it runs with the rights of the app, and joins nothing.
 */
import { closeSync, readFileSync, writeFileSync } from 'node:fs'

/** Written by `launch`. */
export interface Entrance {
  /** Files to which this process writes its pid. */
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
// Node ignores SIGPIPE. The next program would inherit an ignored signal, but not a signal with a handler.
process.on('SIGPIPE', () => undefined)
process.execve?.(file, [file, ...args], env)
