import { execFile } from 'node:child_process'
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { OsUser } from '../../server/src/platform/users.ts'
import { fairlead } from './process.ts'
import { isRoot, temporaryDirectory } from './temporary.ts'

/**
 * Whom a server runs as that is to have no rights: `nobody` when the tests are root, else the user of the tests. An
 * account it must be: PostgreSQL looks its user up.
 */
export const ordinaryUser: OsUser | null = isRoot ? { uid: 65_534, gid: 65_534 } : null

/** A data directory of that user's. */
export async function ordinaryDirectory(): Promise<{ path: string } & AsyncDisposable> {
  const directory = await temporaryDirectory()
  const path = join(directory.path, 'data')
  await mkdir(path, { mode: 0o700 })
  if (ordinaryUser !== null) await chown(path, ordinaryUser.uid, ordinaryUser.gid)
  return { path, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() }
}

/** Why no server can run as that user here; `null` when it can. */
export async function noOrdinaryUser(): Promise<string | null> {
  const { code } = await fairlead(['--version'], {}, { user: ordinaryUser })
  return code === 0 ? null : 'the checkout cannot be read by a user without rights (chmod o+rx it and what is above it)'
}

/** Why bubblewrap cannot be used by that user here; `null` when it can. */
export function noBubblewrap(): Promise<string | null> {
  const args = ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', '/bin/true']
  return new Promise((done) => {
    execFile('bwrap', args, { ...ordinaryUser, timeout: 10_000 }, (error) => {
      if (error === null) done(null)
      else if (error.code === 'ENOENT') done('no bubblewrap is installed (apt-get install bubblewrap)')
      else done(`bubblewrap may make no namespaces here (${error.message.trim().split('\n').at(-1)})`)
    })
  })
}

/** Says plainly what is not tested, and why. */
export function skipped(what: string, why: string): void {
  process.stderr.write(`SKIPPED, ${why}: ${what}\n`)
}
