import { removeFolder } from '../../platform/disk/folders.ts'
import { sizeOf } from '../../platform/disk/tree-size.ts'
import { markedValues } from '../../platform/processes.ts'
import type { ReleaseRef, ReleaseStore, StopOptions } from '../runtime.ts'
import type { Children } from './children.ts'
import type { Confinement } from './confinement/confinement.ts'
import { endRelease } from './end-release.ts'
import { RELEASE_MARKER } from './release/environment.ts'
import { closeToApp } from './release/folders.ts'
import { appDirectory, listApps, ownerOf, pathsOf } from './release/layout.ts'

export interface ReleasesParts {
  /** The folder of all apps. */
  readonly apps: string
  readonly children: Pick<Children, 'of' | 'forgetEnded'>
  readonly confinement: Pick<Confinement, 'kill' | 'processesOf' | 'remove' | 'occupied' | 'fence'>
}

/** Keeps releases as folders of the data directory. */
export function createReleaseStore({ apps, children, confinement }: ReleasesParts): ReleaseStore {
  const halt = async (release: ReleaseRef, options: StopOptions = { graceMs: 0 }): Promise<void> => {
    const own = children.of(release.id)
    const leaders = own.map((child) => child.process)
    const uid = await ownerOf(pathsOf(apps, release))
    await endRelease(confinement, { id: release.id, uid }, leaders, options)
    if (options.signal?.aborted === true) return
    await Promise.all(own.map((child) => child.exited))
    children.forgetEnded(release.id)
    await closeToApp(pathsOf(apps, release))
  }

  return {
    halt,

    async remove(release) {
      await halt(release)
      await confinement.remove(release.id)
      confinement.fence()
      await removeFolder(pathsOf(apps, release).directory)
    },

    async removeApp(appId) {
      confinement.fence()
      await removeFolder(appDirectory(apps, appId))
    },

    list: async () => ({
      apps: await listApps(apps),
      running: new Set([...(await markedValues(RELEASE_MARKER)), ...(await confinement.occupied())]),
    }),

    diskUsage(release, part, enough) {
      const { directory, home, temporary, cache } = pathsOf(apps, release)
      return sizeOf(part === 'release' ? [directory] : [home, temporary, cache], enough)
    },
  }
}
