import { randomUUID } from 'node:crypto'
import { access, constants, link, mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readOptional } from './files.ts'
import { assertReachable, makePassableDirectory } from './reachable-files.ts'
import type { OsUser } from './users.ts'

/** All data of a server. All paths are absolute. */
export interface DataDirectory {
  readonly root: string
  readonly run: string
  /** The key of the stored secrets, 0600. */
  readonly secretKeyFile: string
  readonly cluster: string
  /** The clusters of users' databases, one folder a version. */
  readonly databases: string
  /** The certificate of these clusters and its authority; the authority's key is 0600. */
  readonly databaseCertificates: string
  /** Versions of PostgreSQL installed from the npm registry. */
  readonly binaries: string
  /** Copies of programs that unprivileged users must be able to run. */
  readonly runtime: string
  readonly bin: string
  /** Programs that apps ask for in specific versions, such as another Node. */
  readonly tools: string
  readonly apps: string
  /** The position up to which the output of each container was read. */
  readonly containers: string
  readonly pulls: string
  /** Layers and caches of builds of Dockerfiles, one folder for each app. */
  readonly imageBuilds: string
  readonly gateway: string
  /** The logs of deployments, readable only for the server. */
  readonly logs: string
  readonly git: string
  /** Uploaded sources, readable only for the server. */
  readonly sources: string
  readonly files: string
  /** The key of the marks that apps' processes carry; 0600. */
  readonly processMarks: string
  /** The epoch of the leadership, as the name of a file. */
  readonly leaderEpoch: string
  /** Node's cache of compiled code. */
  readonly compiled: string
}

/**
 * Creates and checks the data directory. When the server is root, unprivileged users such as `user` must be able to
 * pass through to their folders; otherwise only the server's user has access. Rejects with an error that says what to
 * do.
 */
export async function openDataDirectory(root: string, user: OsUser | null): Promise<DataDirectory> {
  // An unusable folder is left untouched.
  await assertReachable(root, user)
  try {
    if (user === null) await mkdir(root, { recursive: true, mode: 0o700 })
    else await makePassableDirectory(root)
    await access(root, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    const { message } = error as Error
    throw new Error(
      `The data directory ${root} cannot be written (${message}). Choose another one with --data-dir or FAIRLEAD_DATA_DIR, or give this user write access to it.`,
    )
  }
  const directory = dataDirectoryAt(root)
  if (user !== null) await Promise.all([directory.apps, directory.runtime].map(makePassableDirectory))
  return directory
}

/**
 * Returns a message when another user owns the data directory, so that this user should not work in it; otherwise
 * `null`.
 */
export async function foreignOwner(root: string): Promise<string | null> {
  const owner = (await stat(root).catch(() => null))?.uid
  if (owner === undefined || owner === process.getuid?.()) return null
  return (
    `The data directory ${root} belongs to user id ${owner}, and this is user id ${process.getuid?.()}: a server of its owner cannot ` +
    `use the files that this user makes in it. Run fairlead as its owner (sudo -u '#${owner}' …), or choose another --data-dir.`
  )
}

/** Names the parts of a data directory; creates nothing. */
export function dataDirectoryAt(root: string): DataDirectory {
  return {
    root,
    run: join(root, 'run'),
    secretKeyFile: join(root, 'secret.key'),
    cluster: join(root, 'postgres', 'data'),
    databases: join(root, 'databases'),
    databaseCertificates: join(root, 'database-certificates'),
    binaries: join(root, 'runtime', 'postgres'),
    runtime: join(root, 'runtime'),
    bin: join(root, 'runtime', 'bin'),
    tools: join(root, 'runtime', 'tools'),
    apps: join(root, 'apps'),
    containers: join(root, 'containers'),
    pulls: join(root, 'pulls'),
    imageBuilds: join(root, 'image-builds'),
    gateway: join(root, 'gateway'),
    logs: join(root, 'logs'),
    git: join(root, 'git'),
    sources: join(root, 'sources'),
    files: join(root, 'files'),
    processMarks: join(root, 'process-marks'),
    leaderEpoch: join(root, 'leader-epoch'),
    compiled: join(root, 'compiled'),
  }
}

/**
 * Returns the id of a data directory, from a file that the first start writes. All servers on it get the same id, also
 * when they start for the first time at once. No two data directories share an id.
 */
export async function directoryId(root: string): Promise<string> {
  const path = join(root, 'server-id')
  for (;;) {
    const known = (await readOptional(path))?.trim()
    if (known !== undefined && known !== '') return known
    // A crash may have left an empty file.
    if (known === '') await rm(path, { force: true })
    const own = `${path}.${randomUUID()}`
    await writeFile(own, `${randomUUID()}\n`, { mode: 0o600 })
    try {
      // Unlike a rename, this does not replace the file of a server that was faster.
      await link(own, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      await rm(own, { force: true })
    }
  }
}
