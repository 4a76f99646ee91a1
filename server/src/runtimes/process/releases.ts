import { rm } from 'node:fs/promises'
import { removeFolder } from '../../platform/disk/folders.ts'
import { sizeOf } from '../../platform/disk/tree-size.ts'
import { exists } from '../../platform/files.ts'
import { familyOf, findProcesses, groupProcesses, unlinkedBytesOf } from '../../platform/processes.ts'
import type { Inventory, ReleaseRef, ReleaseStore, StopOptions } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { fromHandle, noProcess, unitOf } from './handle.ts'
import { type Children, endInstance, endRelease } from './instances.ts'
import type { ProcessMarks } from './marks.ts'
import type { Quotas } from './quotas.ts'
import { appDirectory, closeToApp, listApps, ownerOf, pathsOf, type ReleasePaths } from './release-folders.ts'
import { hasRecord, removeAnyRecord } from './site-record.ts'

export interface ReleasesParts {
  readonly apps: string
  readonly children: Pick<Children, 'of' | 'forgetEnded'>
  readonly confinement: Pick<Confinement, 'kill' | 'processesOf' | 'unitsOf' | 'remove' | 'occupied' | 'fence'>
  readonly marks: Pick<ProcessMarks, 'markerOf' | 'instanceMarkerOf' | 'instanceOf'>
  readonly quotas: Pick<Quotas, 'lift' | 'forget'>
}

/** Stores releases as folders in the data directory. */
export function createReleaseStore({ apps, children, confinement, marks, quotas }: ReleasesParts): ReleaseStore {
  const halt = async (release: ReleaseRef, options: StopOptions = { graceMs: 0 }): Promise<void> => {
    const own = children.of(release.id)
    const leaders = own.map((child) => child.process)
    const uid = await ownerOf(pathsOf(apps, release))
    await endRelease({ confinement, marks }, { id: release.id, uid }, leaders, options)
    if (options.signal?.aborted === true) return
    await Promise.all(own.map((child) => child.exited))
    children.forgetEnded(release.id)
    await removeAnyRecord(pathsOf(apps, release))
    await quotas.lift(pathsOf(apps, release))
    await closeToApp(pathsOf(apps, release))
  }

  const hasProcesses = async ({ id }: ReleaseRef): Promise<boolean> =>
    children.of(id).length > 0 || (await listedProcesses(confinement, id)).length > 0

  const processesOf = (release: ReleaseRef) => processesOfRelease({ apps, children, confinement, marks }, release)

  return {
    halt,

    async remove(release) {
      const paths = pathsOf(apps, release)
      const { directory, toolchain, origins } = paths
      // A release that was never made has no processes, and a search through all processes is slow.
      if ((await exists(directory)) || (await hasProcesses(release))) await halt(release)
      for (const unit of await confinement.unitsOf(release.id)) await confinement.remove(unit)
      confinement.fence()
      await quotas.forget(paths)
      await removeFolder(directory)
      await rm(toolchain, { force: true })
      await rm(origins, { force: true })
    },

    // The folder is the first part to be made and the last to be removed.
    isMade: (release) => exists(pathsOf(apps, release).directory),

    async removeApp(appId) {
      confinement.fence()
      await removeFolder(appDirectory(apps, appId))
    },

    async list() {
      const listed = await listApps(apps)
      const units = await unitsOfReleases(marks)
      const served = await servedReleases(apps, listed)
      return {
        apps: listed,
        running: new Set([...served, ...units.keys(), ...(await confinement.occupied())]),
        instances: new Map([...units].map(([id, names]) => [id, names.size])),
      }
    },

    async endOthers(release, known) {
      const kept = new Set(known.map((handle) => unitOf(fromHandle(handle))))
      const uid = await ownerOf(pathsOf(apps, release))
      const found = (await unitsOfReleases(marks)).get(release.id) ?? []
      for (const unit of found) {
        if (kept.has(unit)) continue
        const instance = { releaseId: release.id, unit, ...noProcess, port: 0, ...(uid === undefined ? {} : { uid }) }
        await endInstance({ confinement, marks }, instance, { graceMs: 0 })
        await Promise.all(children.of(release.id).map((child) => child.unit === unit && child.exited))
        children.forgetEnded(release.id, unit)
        await confinement.remove(unit)
      }
    },

    async diskUsage(release, part, enough) {
      const paths = pathsOf(apps, release)
      const named = sizeOf(foldersOf(paths, part), enough)
      if (part === 'files' || part === 'shared') return named
      const unlinked = processesOf(release).then((pids) => unlinkedBytesOf(pids, paths.directory))
      const [bytes, more] = await Promise.all([named, unlinked])
      return bytes + more
    },
  }
}

function foldersOf(paths: ReleasePaths, part: Parameters<ReleaseStore['diskUsage']>[1]): string[] {
  const shared = [paths.home, paths.temporary, paths.cache, paths.volumes]
  if (part === 'shared') return shared
  return part === 'all' ? [paths.directory, ...shared] : [paths.directory]
}

async function listedProcesses(confinement: ReleasesParts['confinement'], releaseId: string): Promise<number[]> {
  const units = await confinement.unitsOf(releaseId)
  return (await Promise.all(units.map((unit) => confinement.processesOf(unit)))).flat()
}

async function processesOfRelease(
  { apps, children, confinement, marks }: Omit<ReleasesParts, 'quotas'>,
  release: ReleaseRef,
): Promise<number[]> {
  // A static site has no processes, and a search through all processes is slow.
  if (await hasRecord(pathsOf(apps, release))) return []
  const listed = await listedProcesses(confinement, release.id)
  const leaders = listed.length > 0 ? [] : children.of(release.id)
  if (listed.length + leaders.length === 0) {
    return findProcesses(marks.markerOf(release.id, await ownerOf(pathsOf(apps, release))))
  }
  return [...listed, ...(await Promise.all(leaders.map((child) => familyOf(child.process.pid)))).flat()]
}

async function unitsOfReleases(marks: Pick<ProcessMarks, 'instanceOf'>): Promise<Map<string, Set<string>>> {
  const releases = new Map<string, Set<string>>()
  const names = await groupProcesses((pid) => {
    const found = marks.instanceOf(pid)
    return found === null ? null : `${found.releaseId} ${found.unit ?? ''}`
  })
  for (const name of names.keys()) {
    const [releaseId = '', unit = ''] = name.split(' ')
    const units = releases.get(releaseId) ?? new Set()
    releases.set(releaseId, unit === '' ? units : units.add(unit))
  }
  return releases
}

async function servedReleases(apps: string, listed: Inventory['apps']): Promise<string[]> {
  const found: string[] = []
  for (const { id: appId, releases } of listed) {
    for (const id of releases) if (await hasRecord(pathsOf(apps, { id, appId }))) found.push(id)
  }
  return found
}
