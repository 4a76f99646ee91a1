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
  /** The folder of version 1 that processes join; `null` in version 2, where they are in it by their group. */
  readonly member: string | null
  /** Makes that folder, with all cores; rejects where the machine does not have that. */
  prepare(): Promise<void>
  /** Sets the cores from now on: all, or all but the last one. Changes nothing where there is only one. */
  set(leavesCore: boolean): Promise<void>
}

/**
 * Returns the cores of the groups in a server's folder; `null` where they cannot be set.
 *
 * @param name of the folder
 */
export async function openCores({ version, folders, cores }: Hierarchy, name: string): Promise<Cores | null> {
  const parent = version === 1 ? cores : folders.cpu
  if (parent === undefined) return null
  const opened = version === 1 ? coresInVersion1(join(parent, name)) : coresInVersion2(join(parent, name))
  return opened.prepare().then(
    () => opened,
    () => null,
  )
}

function coresInVersion1(folder: string): Cores {
  return {
    member: folder,
    prepare: () => prepareFolder(folder),
    async set(leavesCore) {
      const all = await valueIn(dirname(folder), 'cpuset.cpus')
      await setInAll(folder, leavesCore ? withoutLast(all) : all)
    },
  }
}

function coresInVersion2(folder: string): Cores {
  return {
    member: null,
    prepare: () => writeFile(join(dirname(folder), 'cgroup.subtree_control'), '+cpuset'),
    async set(leavesCore) {
      const all = await valueIn(dirname(folder), 'cpuset.cpus.effective')
      // The line without a value stands for those of the group above.
      await writeValue(folder, leavesCore ? withoutLast(all) : '\n')
    },
  }
}

/** Makes a folder of version 1, where processes can join none that lacks cores or memory: it has those of the folder above. */
async function prepareFolder(folder: string): Promise<void> {
  await mkdir(folder).catch(async (error: unknown) => {
    if (isCode(error, 'EEXIST')) return
    if (!isCode(error, 'ENOENT')) throw error
    await prepareFolder(dirname(folder))
    await mkdir(folder, { recursive: true })
  })
  for (const file of ['cpuset.mems', 'cpuset.cpus']) {
    if ((await valueIn(folder, file)) !== '') continue
    await writeFile(join(folder, file), await valueIn(dirname(folder), file))
  }
}

/**
 * Sets the cores of a folder of version 1 and of those in it, which an engine has made with the cores of the one above. A folder may not
 * have fewer than one in it: so more cores are set on the way down, and fewer on the way up.
 */
async function setInAll(folder: string, cores: string): Promise<void> {
  await writeValue(folder, cores)
  for (const name of await foldersIn(folder)) await setInAll(join(folder, name), cores)
  await writeValue(folder, cores)
}

/** What cannot be set now, because an engine is making a group, is set at the next look. */
async function writeValue(folder: string, cores: string): Promise<void> {
  if ((await valueIn(folder, 'cpuset.cpus')) === cores.trim()) return
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
