import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from '../logger.ts'
import { startPeriodic } from '../periodic.ts'
import { counterIn, foldersIn, isCode, type Layout, listingFolder, makeLayout } from './groups.ts'
import type { Hierarchy } from './hierarchy.ts'

/*
 * Groups in this folder yield the CPU to all groups beside it. Normally, a thread that wakes up waits for the slice of
 * the running thread, some milliseconds, regardless of their weights, and a request waits like this at each program on
 * its way. Beside an idle group (`cpu.idle`, since Linux 5.15), a thread runs at once. The kernel compares two threads
 * by their groups at the level where their paths part, so the folder must lie beside the groups that it yields to; idle
 * groups further down would yield only to their siblings.
 */

export interface Yielding {
  readonly hierarchy: Hierarchy
  /** Files to which the processes of all groups write their pid, besides the files of their group. */
  readonly join: readonly string[]
  /** Keeps the share up to date until all groups that have begun have ended. */
  began(group: string): Promise<void>
  ended(group: string): void
  close(): Promise<void>
}

export interface YieldingPlace {
  readonly hierarchy: Hierarchy
  /** True when nothing else is in the hierarchy: then the whole hierarchy yields to the groups beside it. */
  readonly isOwn: boolean
}

export interface YieldingOptions {
  /** True while the groups must also leave one core free. */
  readonly leavesCore: () => boolean
  readonly logger: Pick<Logger, 'error'>
}

const everyMs = 2_000

/**
 * Makes the folder; returns `null` when there is no place, or the place is not writable.
 *
 * @param name of the folder; stable across restarts of a server, and different for each server
 */
export async function openYielding(
  place: YieldingPlace | null,
  name: string,
  options: YieldingOptions,
): Promise<Yielding | null> {
  const layout = place === null ? null : await makeLayout(place.hierarchy, name)
  if (place === null || layout === null) return null
  const { counter, member } = await countingIn(place.hierarchy, layout, name)
  const cpu = place.isOwn ? place.hierarchy.folders.cpu : layout.folders.get('cpu')
  const share =
    layout.folders.has('cpu') && cpu !== undefined ? { version: layout.version, folder: cpu, counter } : null
  const cores = share === null ? null : await coresOf(place.hierarchy, layout, name)
  const members = [member, cores?.member ?? null].filter((each) => each !== null)
  const running = new Set<string>()
  let looking: ReturnType<typeof startPeriodic> | undefined
  const stop = async (): Promise<void> => {
    const stopped = looking?.stop()
    looking = undefined
    await stopped
  }

  return {
    hierarchy: hierarchyOf(layout),
    join: members.map((each) => join(each, 'cgroup.procs')),
    async began(group) {
      // A former leader may have removed these folders.
      if (member !== null) await mkdir(member, { recursive: true })
      await cores?.prepare()
      running.add(group)
      if (share !== null) looking ??= startLooking(share, cores, options)
    },
    ended(group) {
      if (running.delete(group) && running.size === 0) void stop()
    },
    async close() {
      await stop()
      // `rmdir` fails while a folder contains groups, as intended.
      for (const folder of new Set([...layout.folders.values(), ...members])) {
        await rmdir(folder).catch(() => undefined)
      }
    },
  }
}

/**
 * The groups' share of the CPU: only what other groups leave (`idle`), or a quarter of one other group's share (`low`).
 */
export type Share = 'idle' | 'low'

/** CPU time of all groups together, and the time of the measurement; both in seconds. */
export interface CpuSample {
  readonly at: number
  /** `null` where the kernel does not count it. */
  readonly used: number | null
}

/** Groups that used less than this part of a core get the `low` share. */
export const leastCores = 0.1

/**
 * Returns the share until the next sample. Idle groups get almost no CPU time while others use all cores, and would
 * never finish. So they get the `low` share whenever they got too little since the last sample, regardless of their share
 * was. When the kernel does not count CPU time, they always get the `low` share.
 *
 * @param last the previous sample; `null` for the first sample
 */
export function shareAfter(last: CpuSample | null, now: CpuSample): Share {
  if (now.used === null) return 'low'
  if (last === null || last.used === null) return 'idle'
  return now.used - last.used < leastCores * (now.at - last.at) ? 'low' : 'idle'
}

export interface ShareFile {
  readonly file: string
  readonly value: string
}

/**
 * Returns the files that set a share, in the order in which they must be written. The kernel refuses the weight of an
 * idle group, and resets the weight when a group is no longer idle, so the weight comes second. Linux before 5.15 has
 * no `cpu.idle`; there groups always have the `low` share.
 */
export function shareFiles(version: 1 | 2, share: Share): readonly ShareFile[] {
  const idle = { file: 'cpu.idle', value: share === 'idle' ? '1' : '0' }
  return [idle, version === 1 ? { file: 'cpu.shares', value: '256' } : { file: 'cpu.weight', value: '25' }]
}

function hierarchyOf(layout: Layout): Hierarchy {
  const { version, folders } = layout
  if (version === 1) return { version, folders: Object.fromEntries(folders) }
  const folder = listingFolder(layout)
  return { version, folders: { memory: folder, cpu: folder, pids: folder, freezer: folder } }
}

/**
 * Returns the file with the CPU time of all groups, and the group that their processes join for it; `null` for what
 * does not exist. Version 1 counts with `cpuacct`, which usually shares the folders of `cpu`.
 */
async function countingIn(
  { cpuTime }: Hierarchy,
  { version, folders }: Layout,
  name: string,
): Promise<{ readonly counter: string | null; readonly member: string | null }> {
  if (version === 2) return { counter: join(folders.get('freezer') ?? '', 'cpu.stat'), member: null }
  if (cpuTime === undefined) return { counter: null, member: null }
  const folder = join(cpuTime, name)
  const counter = join(folder, 'cpuacct.usage')
  if ([...folders.values()].includes(folder)) return { counter, member: null }
  const made = await mkdir(folder, { recursive: true }).then(
    () => true,
    () => false,
  )
  return made ? { counter, member: folder } : { counter: null, member: null }
}

/**
 * Returns `null` also when version 1 has limits and cores in the same folder: processes join the folders of their
 * groups there.
 */
async function coresOf(hierarchy: Hierarchy, { version, folders }: Layout, name: string): Promise<Cores | null> {
  const isShared =
    version === 1 && hierarchy.cores !== undefined && [...folders.values()].includes(join(hierarchy.cores, name))
  return isShared ? null : openCores(hierarchy, name)
}

interface SharedFolder {
  readonly version: 1 | 2
  readonly folder: string
  readonly counter: string | null
}

function startLooking(
  { version, folder, counter }: SharedFolder,
  cores: Cores | null,
  { leavesCore, logger }: YieldingOptions,
) {
  let last: CpuSample | null = null
  return startPeriodic({
    ...{ name: 'setting the share and the cores of builds', everyMs, logger },
    async work() {
      const now = { at: performance.now() / 1000, used: counter === null ? null : await secondsIn(counter, version) }
      const share = shareAfter(last, now)
      last = now
      // The kernel refuses the weight of an idle group, and older kernels lack `cpu.idle`.
      for (const { file, value } of shareFiles(version, share)) {
        await writeFile(join(folder, file), value).catch(() => undefined)
      }
      await cores?.set(leavesCore())
    },
  })
}

async function secondsIn(counter: string, version: 1 | 2): Promise<number | null> {
  const text = await readFile(counter, 'utf8').catch(() => null)
  if (text === null) return null
  return version === 2 ? counterIn(text, 'usage_usec') / 1e6 : Number(text) / 1e9
}

/*
 * `cpu.idle` is not enough: when two programs on a request's way share a core, one interrupts the other, and from Linux
 * 6.6 on the kernel may then run an idle group until the next tick. This cannot happen on a core without idle groups.
 */

interface Cores {
  /**
   * The folder of version 1 that processes join; `null` in version 2, where the groups of the processes are in the
   * folder.
   */
  readonly member: string | null
  /** Makes the folder again, with all cores, if it was removed. */
  prepare(): Promise<void>
  /** Sets the cores: all, or all but the last core. Changes nothing when there is only one core. */
  set(leavesCore: boolean): Promise<void>
}

/**
 * Opens the cores of the groups in a server's folder; returns `null` where they cannot be set.
 *
 * @param name of the folder
 */
async function openCores({ version, folders, cores }: Hierarchy, name: string): Promise<Cores | null> {
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
    // Not every kernel lets a group with processes return to an empty list, so "all" is a list, too.
    set: async (leavesCore) => setIn(folder, chosen(await valueIn(parent, 'cpuset.cpus.effective'), leavesCore)),
  }
}

const chosen = (all: string, leavesCore: boolean): string => (leavesCore ? withoutLast(all) : all)

/**
 * Makes a folder of version 1 with the cores and memory nodes of its parent. Without both, processes cannot join it.
 */
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
 * Sets the cores of a folder of version 1 and of its subfolders, which a container engine has made with the cores of
 * their parent. A folder must have every core of its subfolders, so cores are added on the way down and removed on the
 * way up.
 */
async function setInAll(folder: string, cores: string): Promise<void> {
  await setIn(folder, cores)
  for (const name of await foldersIn(folder)) await setInAll(join(folder, name), cores)
  await setIn(folder, cores)
}

/** Can fail while a container engine makes a group. Then the next periodic run sets the cores. */
async function setIn(folder: string, cores: string): Promise<void> {
  if ((await valueIn(folder, 'cpuset.cpus')) === cores) return
  await writeFile(join(folder, 'cpuset.cpus'), cores).catch(() => undefined)
}

const valueIn = (folder: string, file: string): Promise<string> =>
  readFile(join(folder, file), 'utf8').then(
    (text) => text.trim(),
    () => '',
  )

/** Removes the last core from a list in the kernel's format (`0-3,6`); returns a list of one core unchanged. */
export function withoutLast(cores: string): string {
  const ranges = cores.split(',')
  const [first = 0, last = first] = (ranges.pop() ?? '').split('-').map(Number)
  const rest = last === first ? ranges : [...ranges, last - 1 === first ? `${first}` : `${first}-${last - 1}`]
  return rest.length === 0 ? cores : rest.join(',')
}
