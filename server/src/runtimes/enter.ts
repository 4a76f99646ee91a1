import { createHash } from 'node:crypto'
import { chmod, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { exists } from '../platform/files.ts'
import { assetFile } from '../platform/package-files.ts'
import { copyOnce } from '../platform/reachable-files.ts'
import type { OsUser } from '../platform/users.ts'

/*
 * The program that becomes the command of an app, `scripts/enter/enter.c`. Containers run it first. It also starts
 * commands in control groups, networks and sandboxes.
 */

/**
 * Returns the path of the copy.
 *
 * @throws Error on a machine for which the program does not exist
 */
export async function copyEnter(folder: string, name: string): Promise<string> {
  const source = assetFile(`enter/${process.arch}`)
  if (!(await exists(source))) throw new Error(`Fairlead runs on x64 and arm64, not on ${process.arch}`)
  const hash = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
  // A file for each version: containers keep their version open.
  const copyTo = join(folder, `${name}-${hash.slice(0, 16)}`)
  // The file identifies processes of this server in containers, so no other server may share it by a hard link.
  await copyOnce({ source, copyTo, mayLink: false })
  // Packages do not preserve file modes.
  await chmod(copyTo, 0o755)
  return copyTo
}

export interface Entrance {
  /** The program writes its pid to these files of control groups. */
  readonly groups: readonly string[]
  readonly user: OsUser | null
  /** The file as an absolute path, and its arguments. */
  readonly argv: readonly [string, ...string[]]
  readonly env: Readonly<Record<string, string>>
}

/**
 * Returns the input of the program on descriptor 3.
 *
 * @throws Error when a text contains the zero byte, which ends texts
 */
export function entranceText({ groups, user, argv, env }: Entrance): string {
  const ids = user === null ? ['', ''] : [user.uid, user.gid]
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const texts = [groups.length, ...groups, ...ids, argv.length, ...argv, ...variables]
  if (texts.some((text) => String(text).includes('\0'))) throw new Error('a command contains a zero byte')
  return texts.map((text) => `${text}\0`).join('')
}
