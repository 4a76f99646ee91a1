import { execFile } from 'node:child_process'
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { OsUser } from '../../server/src/platform/users.ts'
import { fairlead } from './process.ts'
import { isRoot, temporaryDirectory } from './temporary.ts'

/**
 * The user of a server without privileges: `nobody` when the tests run as root, otherwise the user of the tests
 * (`null`). The user must have an account, because PostgreSQL looks it up.
 */
export const ordinaryUser: OsUser | null = isRoot ? { uid: 65_534, gid: 65_534 } : null

export async function ordinaryDirectory(): Promise<{ path: string } & AsyncDisposable> {
  const directory = await temporaryDirectory()
  const path = join(directory.path, 'data')
  await mkdir(path, { mode: 0o700 })
  if (ordinaryUser !== null) await chown(path, ordinaryUser.uid, ordinaryUser.gid)
  return { path, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() }
}

/** Returns why no server can run as that user here; `null` when one can. */
export async function noOrdinaryUser(): Promise<string | null> {
  const { code } = await fairlead(['--version'], {}, { user: ordinaryUser })
  return code === 0
    ? null
    : 'the checkout cannot be read by an unprivileged user (chmod o+rx it and its parent folders)'
}

/** Returns why that user cannot use bubblewrap here; `null` when it can. */
export function noBubblewrap(): Promise<string | null> {
  const args = ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', '/bin/true']
  return new Promise((done) => {
    execFile('bwrap', args, { ...ordinaryUser, timeout: 10_000 }, (error) => {
      if (error === null) done(null)
      else if (error.code === 'ENOENT') done('bubblewrap is not installed (apt-get install bubblewrap)')
      else done(`bubblewrap may not create namespaces here (${error.message.trim().split('\n').at(-1)})`)
    })
  })
}

/** Reports on standard error what is not tested, and why. */
export function skipped(what: string, why: string): void {
  process.stderr.write(`SKIPPED, ${why}: ${what}\n`)
}
