import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { availableControllers, type Controller, controllers, type Hierarchy, ownGroup } from './hierarchy.ts'

/** The server's own folder in each hierarchy that it can write. The groups are folders in it. */
export interface Layout {
  readonly version: 1 | 2
  readonly folders: ReadonlyMap<Controller, string>
}

/**
 * Creates the folder of a server in each hierarchy that it can write; returns `null` when there is none.
 *
 * @param name of the folder; the same for the same server after a restart, and different for every other server
 */
export async function makeLayout(hierarchy: Hierarchy, name: string): Promise<Layout | null> {
  const { version } = hierarchy
  const folders = version === 1 ? await makeFolders(hierarchy, name) : await makeDelegated(hierarchy, name)
  return folders.size === 0 ? null : { version, folders }
}

async function makeFolders(hierarchy: Hierarchy, name: string): Promise<Map<Controller, string>> {
  const folders = new Map<Controller, string>()
  for (const controller of controllers) {
    const parent = hierarchy.folders[controller]
    if (parent === undefined) continue
    const made = await mkdir(join(parent, name), { recursive: true }).then(
      () => true,
      () => false,
    )
    if (made) folders.set(controller, join(parent, name))
  }
  return folders
}

async function makeDelegated(hierarchy: Hierarchy, name: string): Promise<Map<Controller, string>> {
  const parent = hierarchy.folders.pids ?? ''
  const delegated = await delegate(parent, name).catch(() => [])
  return new Map(delegated.map((controller) => [controller, join(parent, name)]))
}

/** Enables the controllers of version 2 for the groups below the server's folder; returns them, and `freezer`. */
async function delegate(parent: string, name: string): Promise<Controller[]> {
  const available = await availableControllers(parent)
  if (available.length === 0) return []
  const folder = join(parent, name)
  await mkdir(folder, { recursive: true })
  const enabled = available.filter((each) => each !== 'freezer')
  const value = enabled.map((each) => `+${each}`).join(' ')
  await writeFile(join(parent, 'cgroup.subtree_control'), value).catch(async (error: unknown) => {
    if (!isCode(error, 'EBUSY')) throw error
    // A group that holds processes itself cannot enable controllers for its children: they all move to a child.
    await moveProcesses(parent, join(parent, ownGroup(name)))
    await writeFile(join(parent, 'cgroup.subtree_control'), value)
  })
  await writeFile(join(folder, 'cgroup.subtree_control'), value)
  return available
}

/** Moves the processes of a group to another one. Those that end meanwhile need not be moved. */
async function moveProcesses(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  const pids = (await readFile(join(from, 'cgroup.procs'), 'utf8')).split('\n').filter((pid) => pid !== '')
  for (const pid of pids) {
    await writeFile(join(to, 'cgroup.procs'), pid).catch((error: unknown) => {
      if (!isCode(error, 'ESRCH')) throw error
    })
  }
}

export const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
