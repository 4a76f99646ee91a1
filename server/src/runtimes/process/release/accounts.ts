import { randomUUID } from 'node:crypto'
import { chmod, readFile, rename, writeFile } from 'node:fs/promises'
import type { OsUser } from '../../../platform/users.ts'
import type { LocalRelease, ReleasePaths } from './layout.ts'

/** The name of an app's user, as programs see it that ask the system (`whoami`, `os.userInfo()`, ssh). */
const userName = 'app'

/**
 * Writes the files that stand for `/etc/passwd` and `/etc/group` in the app's sandboxes. The machine has no account with the
 * uid of an app, and many programs end with an error where the system does not know their user.
 */
export async function writeAccounts({ user, paths }: Pick<LocalRelease, 'user' | 'paths'>): Promise<void> {
  if (user === null) return
  await replace(paths.passwd, passwd(user, paths))
  await replace(paths.group, group(user))
}

const passwd = ({ uid, gid }: OsUser, { home }: ReleasePaths): string =>
  lines([
    'root:x:0:0:root:/root:/bin/sh',
    `${userName}:x:${uid}:${gid}:${userName}:${home}:/bin/sh`,
    'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
  ])

const group = ({ gid }: OsUser): string => lines(['root:x:0:', `${userName}:x:${gid}:`, 'nogroup:x:65534:'])

const lines = (each: readonly string[]): string => `${each.join('\n')}\n`

/** Leaves a file that has the text as it is: what runs has it open. */
async function replace(path: string, text: string): Promise<void> {
  if ((await readFile(path, 'utf8').catch(() => null)) === text) return
  const fresh = `${path}.${randomUUID()}`
  await writeFile(fresh, text)
  await chmod(fresh, 0o644)
  await rename(fresh, path)
}
