import { access, constants, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { assertReachable, makePassableDirectory } from '../machine/reach.ts'
import type { OsUser } from '../users.ts'

/** The one folder that a server keeps everything in. All paths are absolute. */
export interface DataDirectory {
  readonly root: string
  /** The key of the stored secrets, 0600. */
  readonly secretKeyFile: string
  /** The embedded PostgreSQL cluster. */
  readonly cluster: string
  /** Clusters for users' databases, a folder for each version. */
  readonly databases: string
  /** Versions of PostgreSQL that were brought from the registry. */
  readonly binaries: string
  /** Copies of programs that other users must be able to run. */
  readonly runtime: string
  /** What comes first on the PATH of builds and apps. */
  readonly bin: string
  readonly apps: string
  /** The logs of deployments, the server's alone. */
  readonly logs: string
  readonly git: string
  /** Uploaded files. */
  readonly files: string
}

/**
 * Makes the data directory and sees that it can be used. As root, other users must be able to pass through it to what
 * is theirs (`user` is one of them); otherwise it is the server's user's alone.
 * Rejects with what is wrong and what to do.
 */
export async function openDataDirectory(root: string, user: OsUser | null): Promise<DataDirectory> {
  // Before anything is made: what cannot be used leaves no trace.
  await assertReachable(root, user)
  try {
    if (user === null) await mkdir(root, { recursive: true, mode: 0o700 })
    else await makePassableDirectory(root)
    await access(root, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    const { message } = error as Error
    throw new Error(
      `The data directory ${root} cannot be written (${message}). Choose another one with --data-dir or FAIRLEAD_DATA_DIR, or give this user the right to it.`,
    )
  }
  const directory = {
    root,
    secretKeyFile: join(root, 'secret.key'),
    cluster: join(root, 'postgres', 'data'),
    databases: join(root, 'databases'),
    binaries: join(root, 'runtime', 'postgres'),
    runtime: join(root, 'runtime'),
    bin: join(root, 'runtime', 'bin'),
    apps: join(root, 'apps'),
    logs: join(root, 'logs'),
    git: join(root, 'git'),
    files: join(root, 'files'),
  }
  if (user !== null) await Promise.all([directory.apps, directory.runtime].map(makePassableDirectory))
  return directory
}
