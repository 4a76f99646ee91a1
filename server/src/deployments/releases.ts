import { spawn } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Range } from '../platform/config.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import type { OsUser } from '../platform/users.ts'
import { removeFolder } from './runner/folders.ts'
import type { Limits } from './runner/limits.ts'
import type { Release } from './runner/runner.ts'
import type { Variables } from './variables.ts'

/** Where releases lie on disk and whom they belong to. */
export interface Releases {
  /** The release of a deployment; nothing is made on disk by this. */
  of(
    deployment: { id: string; app_id: string; project_id: string; variables: Buffer },
    appNumber: number,
  ): Promise<Release>
  /** The same without what it would run with; for a deployment whose row is gone, too. */
  placeOf(deployment: { id: string; app_id: string }): ReleasePlace
  variablesOf(deployment: { id: string; variables: Buffer }): Variables
  tokenOf(deployment: { id: string; git_token: Buffer | null }): string | null
  /** What must not be shown to anybody who sees the deployment: the values of its variables, and its token. */
  secretsOf(deployment: { id: string; variables: Buffer; git_token: Buffer | null }): readonly string[]
  /** Makes the folders of a release, empty. */
  prepare(release: Release): Promise<void>
  /** Hands the fetched files over to the user that builds and runs them. */
  handOver(release: Release, signal: AbortSignal): Promise<void>
  /** Every app on the disk, with its releases and the logs of its deployments by the ids of the deployments. */
  onDisk(): Promise<AppOnDisk[]>
  /** Deletes a log that no deployment needs. */
  removeLog(appId: string, deploymentId: string): Promise<void>
  /** Deletes all that an app has on the disk; nothing of it may run any more. */
  removeApp(appId: string): Promise<void>
}

export type ReleasePlace = Pick<Release, 'id' | 'directory' | 'appDirectory' | 'logDirectory'>

export interface AppOnDisk {
  readonly id: string
  readonly releases: readonly { readonly id: string; readonly directory: string }[]
  readonly logs: readonly string[]
}

export function createReleases(options: {
  /** The folder of all apps in the data directory. */
  readonly directory: string
  /** The folder of all logs in the data directory. */
  readonly logDirectory: string
  /** The uids that apps get when the server is root, else `null`. */
  readonly uids: Range | null
  /** What the apps of a project may use, by its plan. */
  readonly limitsOf: (projectId: string) => Promise<Limits>
  readonly secrets: SecretBox
}): Releases {
  const variablesOf: Releases['variablesOf'] = (deployment) =>
    JSON.parse(options.secrets.decrypt(deployment.variables, deployment.id))
  const tokenOf: Releases['tokenOf'] = ({ id, git_token }) =>
    git_token === null ? null : options.secrets.decrypt(git_token, tokenContext(id))

  const placeOf: Releases['placeOf'] = ({ id, app_id }) => {
    const appDirectory = join(options.directory, app_id)
    return {
      id,
      directory: join(appDirectory, 'releases', id),
      appDirectory,
      logDirectory: join(options.logDirectory, app_id, id),
    }
  }

  return {
    variablesOf,
    tokenOf,
    placeOf,

    secretsOf(deployment) {
      const token = tokenOf(deployment)
      return [...Object.values(variablesOf(deployment)), ...(token === null ? [] : [token, ...token.split(':')])]
    },

    async of(deployment, appNumber) {
      return {
        ...placeOf(deployment),
        user: userOf(options.uids, appNumber),
        limits: await options.limitsOf(deployment.project_id),
        variables: variablesOf(deployment),
      }
    },

    async prepare(release) {
      // Enterable for the app's user, readable for nobody: what lies inside has its own owner.
      await mkdir(release.directory, { recursive: true, mode: 0o711 })
      await mkdir(join(release.directory, 'source'), { mode: 0o700 })
    },

    async handOver(release, signal) {
      if (release.user === null) return
      const { uid, gid } = release.user
      // Symbolic links are changed themselves and never followed.
      await run('chown', ['-R', '-h', '-P', '--', `${uid}:${gid}`, '.'], join(release.directory, 'source'), signal)
    },

    async onDisk() {
      const ids = new Set([...(await folders(options.directory)), ...(await folders(options.logDirectory))])
      return Promise.all(
        [...ids].map(async (id) => {
          const directory = join(options.directory, id, 'releases')
          return {
            id,
            releases: (await folders(directory)).map((name) => ({ id: name, directory: join(directory, name) })),
            logs: await folders(join(options.logDirectory, id)),
          }
        }),
      )
    },

    removeLog: (appId, deploymentId) => removeFolder(join(options.logDirectory, appId, deploymentId)),

    async removeApp(appId) {
      await removeFolder(join(options.directory, appId))
      await removeFolder(join(options.logDirectory, appId))
    },
  }
}

/** Binds the encrypted token to its place. */
export const tokenContext = (deploymentId: string): string => `${deploymentId} git_token`

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

function run(program: string, args: readonly string[], cwd: string, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    spawn(program, args, { cwd, stdio: 'ignore', signal })
      .on('error', fail)
      .on('close', (code) => (code === 0 ? done() : fail(new Error(`${program} ended with code ${code}`))))
  })
}
