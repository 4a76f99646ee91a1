import { randomUUID } from 'node:crypto'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { foldersIn, removeFolder } from './folders.ts'
import { sizeOf } from './tree-size.ts'

/*
 * The volumes of an app are folders of the data directory: `volumes/<name>/files`. The server owns the folder `<name>`,
 * so that the app cannot replace `files` with a link. This folder is closed when any user may own the files, as in
 * containers.
 */

export const volumesIn = (app: string): string => join(app, 'volumes')

export const volumeFiles = (volumes: string, name: string): string => join(volumes, name, 'files')

/** The prefix of the folders of deleted volumes. No volume name begins with it. */
const deleted = '.deleted-'

export interface VolumeFolders {
  names(appId: string): Promise<string[]>
  /** The bytes on the disk; infinity when it cannot be read. */
  bytesOf(appId: string, name: string): Promise<number>
  /** Frees the names of volumes at once, regardless of their sizes. Ignores volumes that do not exist. */
  remove(appId: string, names: readonly string[]): Promise<void>
  clear(): Promise<void>
}

/** @param apps the folder of all apps */
export function createVolumeFolders(apps: string): VolumeFolders {
  const of = (appId: string) => volumesIn(join(apps, appId))
  return {
    names: async (appId) => (await foldersIn(of(appId))).filter((name) => !name.startsWith(deleted)).sort(),
    bytesOf: (appId, name) => sizeOf([volumeFiles(of(appId), name)]),
    async remove(appId, names) {
      for (const name of names) await setAside(of(appId), name)
    },
    async clear() {
      for (const appId of await foldersIn(apps)) {
        const aside = (await foldersIn(of(appId))).filter((name) => name.startsWith(deleted))
        for (const name of aside) await removeFolder(join(of(appId), name))
      }
    },
  }
}

async function setAside(volumes: string, name: string): Promise<void> {
  await rename(join(volumes, name), join(volumes, `${deleted}${randomUUID()}`)).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    },
  )
}
