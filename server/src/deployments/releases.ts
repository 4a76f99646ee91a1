import { spawn } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Range } from '../platform/config.ts'
import type { SecretBox } from '../platform/secrets.ts'
import type { OsUser } from '../platform/users.ts'
import type { Release } from './runner/runner.ts'

/** Where releases lie on disk and whom they belong to. */
export interface Releases {
  /** The release of a deployment; nothing is made on disk by this. */
  of(deployment: { id: string; app_id: string; variables: Buffer }, appNumber: number): Release
  variablesOf(deployment: { id: string; variables: Buffer }): Readonly<Record<string, string>>
  /** Makes the folders of a release, empty. */
  prepare(release: Release): Promise<void>
  /** Hands the fetched files over to the user that builds and runs them. */
  handOver(release: Release): Promise<void>
  /** Every release on disk, by its deployment's id. */
  onDisk(): Promise<{ id: string; directory: string }[]>
}

export function createReleases(options: {
  /** The folder of all apps in the data directory. */
  readonly directory: string
  /** The uids that apps get when the server is root, else `null`. */
  readonly uids: Range | null
  readonly secrets: SecretBox
}): Releases {
  const variablesOf: Releases['variablesOf'] = (deployment) =>
    JSON.parse(options.secrets.decrypt(deployment.variables, deployment.id))

  return {
    variablesOf,

    of(deployment, appNumber) {
      const appDirectory = join(options.directory, deployment.app_id)
      return {
        id: deployment.id,
        appDirectory,
        directory: join(appDirectory, 'releases', deployment.id),
        user: userOf(options.uids, appNumber),
        variables: variablesOf(deployment),
      }
    },

    async prepare(release) {
      // Enterable for the app's user, readable for nobody: what lies inside has its own owner.
      await mkdir(release.directory, { recursive: true, mode: 0o711 })
      await mkdir(join(release.directory, 'source'), { mode: 0o700 })
    },

    async handOver(release) {
      if (release.user === null) return
      const { uid, gid } = release.user
      // Symbolic links are changed themselves and never followed.
      await run('chown', ['-R', '-h', '-P', '--', `${uid}:${gid}`, '.'], join(release.directory, 'source'))
    },

    async onDisk() {
      const found: { id: string; directory: string }[] = []
      for (const app of await folders(options.directory)) {
        const releases = join(options.directory, app, 'releases')
        for (const id of await folders(releases)) found.push({ id, directory: join(releases, id) })
      }
      return found
    },
  }
}

function userOf(uids: Range | null, appNumber: number): OsUser | null {
  if (uids === null) return null
  const uid = uids.from + appNumber
  if (uid > uids.to) throw new Error('No unprivileged uid is left for another app. Widen FAIRLEAD_UIDS.')
  return { uid, gid: uid }
}

async function folders(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true })
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

function run(program: string, args: readonly string[], cwd: string): Promise<void> {
  return new Promise((done, fail) => {
    spawn(program, args, { cwd, stdio: 'ignore' })
      .on('error', fail)
      .on('close', (code) => (code === 0 ? done() : fail(new Error(`${program} ended with code ${code}`))))
  })
}
