import { lstat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import type { Administration } from '../administration.ts'
import { type ClientConfig, readClientConfig } from '../platform/config/client.ts'
import { loadConfig } from '../platform/config.ts'
import { controlsOf } from '../platform/control/client.ts'
import { dataDirectoryAt } from '../platform/data-directory.ts'
import { withLock } from '../platform/database.ts'
import { exists } from '../platform/files.ts'
import { isPrivateDirectory } from '../platform/socket-folder.ts'
import type { LocalServer } from './client/connection.ts'
import { say } from './client/wait.ts'
import { directoriesInUse } from './data-directory.ts'
import { createKey } from './keys.ts'
import { dataDirOption, withState } from './shared.ts'

export const localServer: LocalServer = { option: dataDirOption, logIn: logInLocally }

type Given = Parameters<LocalServer['logIn']>[0]

async function logInLocally(given: Given): Promise<ClientConfig | undefined> {
  for (const folder of await foldersOf(given)) {
    const isNamed = given.dataDir !== undefined || given.hasDataDirectory
    const url = await runningAt(folder, isNamed ? undefined : isOwnSocket)
    // The server uses an external PostgreSQL, which this command does not know.
    if (url === undefined) continue
    const keptOne = async () => {
      const kept = await given.kept()
      return kept?.baseUrl === `${url}/v1` ? kept : undefined
    }
    const kept = await keptOne()
    if (kept !== undefined) return kept
    if (!(await canAdminister(folder))) continue
    return withState({ dataDir: folder }, (administration) =>
      withLock(administration.database, 'keys of local commands', async () => {
        // Another command may have created a key during the wait for the lock.
        return (await keptOne()) ?? makeKey(administration, { url, folder, keep: given.keep })
      }),
    )
  }
  return undefined
}

async function makeKey(
  administration: Administration,
  { url, folder, keep }: { readonly url: string; readonly folder: string; readonly keep: Given['keep'] },
): Promise<ClientConfig> {
  const flags = { name: `fairlead deploy on ${hostname()}`.slice(0, 100), preset: 'full' }
  const config = readClientConfig(url, await createKey(administration, flags))
  await keep(config)
  say(`using the server at ${url}, with a new key of its data directory ${folder}`)
  return config
}

async function foldersOf({ dataDir, hasDataDirectory }: Given): Promise<string[]> {
  return dataDir !== undefined || hasDataDirectory ? [loadConfig({ dataDir }).dataDirectory] : directoriesInUse()
}

/** Returns the address of the newest ready server of a data directory. */
export async function runningAt(
  folder: string,
  isTrusted: (socket: string) => Promise<boolean> = async () => true,
): Promise<string | undefined> {
  const controls = await controlsOf(dataDirectoryAt(folder).run).catch(() => [])
  for (const control of controls.toReversed()) {
    if (!(await isTrusted(control.record.socket))) continue
    const status = await control.status().catch(() => null)
    if (status?.state === 'ready' && status.url !== null) return status.url
  }
  return undefined
}

/**
 * True for a socket in a private folder of this user, where only this user can create one. The folder `.fairlead` may
 * come from a foreign repository, whose cluster we must not start; but a repository cannot contain sockets.
 */
async function isOwnSocket(path: string): Promise<boolean> {
  const isPrivate = await isPrivateDirectory(dirname(path), null).catch(() => false)
  return isPrivate && (await lstat(path).catch(() => null))?.isSocket() === true
}

const canAdminister = async (folder: string): Promise<boolean> =>
  loadConfig({ dataDir: folder }).databaseUrl !== undefined || exists(dataDirectoryAt(folder).cluster)
