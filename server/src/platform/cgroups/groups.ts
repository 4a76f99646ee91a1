import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { growingPause } from '../abort.ts'
import { sendSignal } from '../processes/end.ts'
import { unlessShort } from '../processes/stat.ts'
import { availableControllers, type Controller, controllers, type Hierarchy, ownGroup } from './hierarchy.ts'

export interface GroupLimits {
  readonly memoryBytes: number
  readonly cpus: number
  /** Threads count, too. */
  readonly processes: number
}

export type Exceeded = 'memory' | 'processes'

const periodMicroseconds = 100_000

interface LimitFile {
  readonly controller: Controller
  readonly file: string
  readonly value: string
  /** Kernels without swap accounting lack the file. */
  readonly optional?: true
}

/** Returns the files and values that set the limits of a new group, in the order in which they must be written. */
export function limitFiles(version: 1 | 2, limits: GroupLimits): LimitFile[] {
  const { memoryBytes, cpus, processes } = limits
  const memory = String(memoryBytes)
  const quota = String(Math.max(1_000, Math.round(cpus * periodMicroseconds)))
  if (version === 1) {
    return [
      { controller: 'memory', file: 'memory.limit_in_bytes', value: memory },
      // Limits memory and swap together. It may not be lower than the limit of memory, so it comes second.
      { controller: 'memory', file: 'memory.memsw.limit_in_bytes', value: memory, optional: true },
      { controller: 'cpu', file: 'cpu.cfs_period_us', value: String(periodMicroseconds) },
      { controller: 'cpu', file: 'cpu.cfs_quota_us', value: quota },
      { controller: 'pids', file: 'pids.max', value: String(processes) },
    ]
  }
  return [
    { controller: 'memory', file: 'memory.max', value: memory },
    { controller: 'memory', file: 'memory.swap.max', value: '0', optional: true },
    { controller: 'cpu', file: 'cpu.max', value: `${quota} ${periodMicroseconds}` },
    { controller: 'pids', file: 'pids.max', value: String(processes) },
  ]
}

interface CounterFile {
  readonly controller: Controller
  readonly file: string
  readonly name: string
  readonly exceeded: Exceeded
}

export function counterFiles(version: 1 | 2): CounterFile[] {
  const memoryFile = version === 1 ? 'memory.oom_control' : 'memory.events'
  return [
    { controller: 'memory', file: memoryFile, name: 'oom_kill', exceeded: 'memory' },
    { controller: 'pids', file: 'pids.events', name: 'max', exceeded: 'processes' },
  ]
}

/** Reads a counter from lines of `name value`; 0 when it is missing. */
export function counterIn(text: string, name: string): number {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}

/** Killed processes usually end within two milliseconds, and a deployment waits for this several times. */
const pauses = { firstMs: 1, longestMs: 10 }
const freezeDeadlineMs = 1_000
const killDeadlineMs = 10_000

/**
 * Returns the folder that lists the processes of groups. The folders of all controllers hold the same processes. The
 * freezer's folder is preferred, because only the processes listed there are frozen.
 */
export function listingFolder({ folders }: Layout): string {
  const [first = ''] = folders.values()
  return folders.get('freezer') ?? first
}

/** Returns the pids of a group's processes; none when the group does not exist. */
export async function processesOf(layout: Layout, name: string): Promise<number[]> {
  const text = await readFile(join(listingFolder(layout), name, 'cgroup.procs'), 'utf8').catch(unlessShort(''))
  return text.split('\n').filter(Boolean).map(Number)
}

/**
 * Freezes the processes first, so that none can fork.
 *
 * @throws Error when processes survive SIGKILL for ten seconds, because they are blocked in the kernel or the machine
 *   is overloaded
 */
export async function killGroup(layout: Layout, name: string): Promise<void> {
  const deadline = performance.now() + killDeadlineMs
  const pause = growingPause(pauses)
  for (;;) {
    const left = await processesOf(layout, name)
    if (left.length === 0) return
    if (performance.now() > deadline)
      throw new Error(`the processes ${left.join(', ')} of the group ${name} survive SIGKILL`)
    if (layout.version === 2) {
      await writeFile(join(listingFolder(layout), name, 'cgroup.kill'), '1').catch(() => undefined)
    }
    await freeze(layout, name, true)
    for (const pid of await processesOf(layout, name)) sendSignal(pid, 'SIGKILL')
    // A frozen process receives the signal when it is thawed.
    await freeze(layout, name, false)
    await pause()
  }
}

/** Freezes or thaws a group of version 1. Version 2 needs no freezer, because it kills a whole group at once. */
async function freeze({ version, folders }: Layout, name: string, frozen: boolean): Promise<void> {
  const folder = folders.get('freezer')
  if (folder === undefined || version === 2) return
  const file = join(folder, name, 'freezer.state')
  const deadline = performance.now() + freezeDeadlineMs
  const pause = growingPause(pauses)
  do {
    await writeFile(file, frozen ? 'FROZEN' : 'THAWED').catch(() => undefined)
    // The state is FREEZING while some process is still inside the kernel.
    if (!frozen || (await readFile(file, 'utf8').catch(() => 'FROZEN')).trim() === 'FROZEN') return
    await pause()
  } while (performance.now() < deadline)
}

/** Deletes a group's folder and its subfolders. Folders stay busy for a moment after their last process has ended. */
export async function removeGroup(folder: string): Promise<void> {
  const deadline = performance.now() + killDeadlineMs
  const pause = growingPause(pauses)
  for (;;) {
    try {
      return await rmdir(folder)
    } catch (error) {
      if (isCode(error, 'ENOENT')) return
      if (!isCode(error, 'EBUSY') || performance.now() > deadline) throw error
    }
    // Only a container engine in a group makes groups below it.
    for (const name of await foldersIn(folder)) await removeGroup(join(folder, name))
    await pause()
  }
}

export async function foldersIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(unlessShort([]))
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}

/** The server's folder in each hierarchy that it can write. The groups are folders in it. */
export interface Layout {
  readonly version: 1 | 2
  readonly folders: ReadonlyMap<Controller, string>
}

/**
 * Creates the folder of a server in each hierarchy that it can write; returns `null` when there is none.
 *
 * @param name of the folder; stable across restarts of a server, and different for each server
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

/** Enables version 2's controllers for groups in the server's folder; returns them and `freezer`. */
async function delegate(parent: string, name: string): Promise<Controller[]> {
  const available = await availableControllers(parent)
  if (available.length === 0) return []
  const folder = join(parent, name)
  await mkdir(folder, { recursive: true })
  const enabled = available.filter((each) => each !== 'freezer')
  const value = enabled.map((each) => `+${each}`).join(' ')
  await writeFile(join(parent, 'cgroup.subtree_control'), value).catch(async (error: unknown) => {
    if (!isCode(error, 'EBUSY')) throw error
    // A group with processes cannot enable controllers for its children, so its processes move to a child.
    await moveProcesses(parent, join(parent, ownGroup(name)))
    await writeFile(join(parent, 'cgroup.subtree_control'), value)
  })
  await writeFile(join(folder, 'cgroup.subtree_control'), value)
  return available
}

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
