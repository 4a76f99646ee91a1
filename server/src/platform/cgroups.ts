import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openYielding, type Yielding, type YieldingPlace } from './cgroups/cpu-share.ts'
import {
  counterFiles,
  counterIn,
  type Exceeded,
  type GroupLimits,
  killGroup,
  type Layout,
  limitFiles,
  listingFolder,
  makeLayout,
  processesOf,
  removeGroup,
} from './cgroups/groups.ts'
import {
  type Controller,
  controllers,
  type GroupFolders,
  type Hierarchy,
  parseHierarchy,
  type Unit,
  unitOf,
  usableControllers,
} from './cgroups/hierarchy.ts'
import { unlessShort } from './processes/stat.ts'

/*
 * Linux control groups of both versions (the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst). They limit a group of
 * processes, list them even when they try to hide, and end all of them reliably.
 */

export type { Controller, Exceeded, GroupFolders, GroupLimits, Hierarchy, Unit, Yielding, YieldingPlace }
export {
  controllers,
  counterFiles,
  counterIn,
  limitFiles,
  openYielding,
  parseHierarchy,
  removeGroup,
  unitOf,
  usableControllers,
}

/** The groups of one server. Every function accepts the name of a group that does not exist. */
export interface Cgroups {
  readonly version: 1 | 2
  readonly controllers: ReadonlySet<Controller>
  readonly folders: GroupFolders
  /**
   * Makes an empty group with fresh counters. Returns the files to which a process writes its pid to join the group.
   */
  make(name: string, limits: GroupLimits): Promise<string[]>
  names(): Promise<string[]>
  processesOf(name: string): Promise<number[]>
  exceeded(name: string): Promise<Exceeded | null>
  /** Ends every process of the group: none can escape by forking, because they are frozen first. */
  kill(name: string): Promise<void>
  /** Ends every process of the group, and deletes the group. */
  remove(name: string): Promise<void>
  /** Deletes empty groups, and the server's folder when no group is left. */
  close(): Promise<void>
}

/**
 * Opens the groups of a server. Returns `null` without a hierarchy, or when this process cannot write to it.
 *
 * @param name of the server's folder; stable over restarts, and unique to this server
 * @param yielding the folder that contains the hierarchy, for groups that give way to others
 */
export async function openCgroups(
  hierarchy: Hierarchy | null,
  name: string,
  yielding: Yielding | null = null,
): Promise<Cgroups | null> {
  const layout = hierarchy === null ? null : await makeLayout(hierarchy, name)
  return layout === null ? null : createCgroups(layout, yielding)
}

function createCgroups(layout: Layout, yielding: Yielding | null): Cgroups {
  const { version, folders } = layout
  const bases = [...new Set(folders.values())]
  const inEachBase = (name: string): string[] => bases.map((base) => join(base, name))

  const names = async (): Promise<string[]> => {
    const entries = await readdir(listingFolder(layout), { withFileTypes: true }).catch(unlessShort([]))
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  }

  const kill: Cgroups['kill'] = async (name) => {
    await killGroup(layout, name)
    yielding?.ended(join(listingFolder(layout), name))
  }
  const remove: Cgroups['remove'] = async (name) => {
    await kill(name)
    for (const folder of inEachBase(name)) await removeGroup(folder)
  }

  return {
    version,
    controllers: new Set(folders.keys()),
    folders: Object.fromEntries(folders),
    names,
    processesOf: (name) => processesOf(layout, name),
    exceeded: (name) => exceededLimit(layout, name),
    kill,
    remove,

    async make(name, limits) {
      await remove(name)
      for (const folder of inEachBase(name)) await mkdir(folder, { recursive: true })
      await writeLimits(layout, name, limits)
      await yielding?.began(join(listingFolder(layout), name))
      return [...inEachBase(name).map((folder) => join(folder, 'cgroup.procs')), ...(yielding?.join ?? [])]
    },

    async close() {
      for (const name of await names()) {
        if ((await processesOf(layout, name)).length === 0) await remove(name).catch(() => undefined)
      }
      // Fails while groups of running apps exist, as intended.
      for (const base of bases) await rmdir(base).catch(() => undefined)
    },
  }
}

async function writeLimits({ version, folders }: Layout, name: string, limits: GroupLimits): Promise<void> {
  for (const { controller, file, value, optional } of limitFiles(version, limits)) {
    const folder = folders.get(controller)
    if (folder === undefined) continue
    await writeFile(join(folder, name, file), value).catch((error: unknown) => {
      if (optional !== true) throw error
    })
  }
}

async function exceededLimit({ version, folders }: Layout, name: string): Promise<Exceeded | null> {
  for (const { controller, file, name: counter, exceeded } of counterFiles(version)) {
    const folder = folders.get(controller)
    if (folder === undefined) continue
    const text = await readFile(join(folder, name, file), 'utf8').catch(unlessShort(''))
    if (counterIn(text, counter) > 0) return exceeded
  }
  return null
}
