import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Hierarchy } from './hierarchy.ts'
import { foldersIn } from './kill.ts'
import { isCode } from './layout.ts'

/*
 * The cores of groups that give way. That they are idle is not enough: where two programs that a request passes share a core, one of
 * them interrupts the other. From Linux 6.6 on the kernel may then let an idle group run until its next tick before the one that was
 * interrupted. On a core without such groups it cannot.
 */

export interface Cores {
  /** The folder of version 1 that processes join; `null` in version 2, where the processes' own groups lie in the folder. */
  readonly member: string | null
  /** Makes that folder again, with all cores, where somebody has removed it. */
  prepare(): Promise<void>
  /** Sets the cores from now on: all, or all but the last one. Changes nothing where there is only one. */
  set(leavesCore: boolean): Promise<void>
}

/**
 * Opens the cores of the groups in a server's folder; returns `null` where they cannot be set.
 *
 * @param name of the folder
 */
export async function openCores({ version, folders, cores }: Hierarchy, name: string): Promise<Cores | null> {
  const parent = version === 1 ? cores : folders.cpu
  if (parent === undefined) return null
  const opening = version === 1 ? openInVersion1(join(parent, name)) : openInVersion2(parent, join(parent, name))
  return opening.catch(() => null)
}

async function openInVersion1(folder: string): Promise<Cores> {
  await prepareFolder(folder)
  return {
    member: folder,
    prepare: () => prepareFolder(folder),
    set: async (leavesCore) => setInAll(folder, chosen(await valueIn(dirname(folder), 'cpuset.cpus'), leavesCore)),
  }
}

async function openInVersion2(parent: string, folder: string): Promise<Cores> {
  await writeFile(join(parent, 'cgroup.subtree_control'), '+cpuset')
  return {
    member: null,
    prepare: async () => undefined,
    // All of them, one by one: not every kernel takes the list back from a group with processes.
    set: async (leavesCore) => setIn(folder, chosen(await valueIn(parent, 'cpuset.cpus.effective'), leavesCore)),
  }
}

const chosen = (all: string, leavesCore: boolean): string => (leavesCore ? withoutLast(all) : all)

/** Makes a folder of version 1, where processes can join none that lacks cores or memory: it has those of the folder above. */
async function prepareFolder(folder: string): Promise<void> {
  const above = dirname(folder)
  await mkdir(folder).catch(async (error: unknown) => {
    if (isCode(error, 'EEXIST')) return
    if (!isCode(error, 'ENOENT')) throw error
    await prepareFolder(above)
    await mkdir(folder, { recursive: true })
  })
  for (const file of ['cpuset.mems', 'cpuset.cpus']) {
    if ((await valueIn(folder, file)) !== '') continue
    const value = await valueIn(above, file)
    if (value === '') throw new Error(`${above} has no ${file}`)
    await writeFile(join(folder, file), value)
  }
}

/**
 * Sets the cores of a folder of version 1 and of those in it, which an engine has made with the cores of the one above. A folder must
 * have every core that a folder in it has: so more cores are set on the way down, and fewer on the way up.
 */
async function setInAll(folder: string, cores: string): Promise<void> {
  await setIn(folder, cores)
  for (const name of await foldersIn(folder)) await setInAll(join(folder, name), cores)
  await setIn(folder, cores)
}

/** An engine that is making a group may keep the cores from being set: then the next look sets them. */
async function setIn(folder: string, cores: string): Promise<void> {
  if ((await valueIn(folder, 'cpuset.cpus')) === cores) return
  await writeFile(join(folder, 'cpuset.cpus'), cores).catch(() => undefined)
}

const valueIn = (folder: string, file: string): Promise<string> =>
  readFile(join(folder, file), 'utf8').then(
    (text) => text.trim(),
    () => '',
  )

/** Returns a list of cores as the kernel writes it (`0-3,6`) without its last one; the same list when it has one only. */
export function withoutLast(cores: string): string {
  const ranges = cores.split(',')
  const [first = 0, last = first] = (ranges.pop() ?? '').split('-').map(Number)
  const rest = last === first ? ranges : [...ranges, last - 1 === first ? `${first}` : `${first}-${last - 1}`]
  return rest.length === 0 ? cores : rest.join(',')
}
