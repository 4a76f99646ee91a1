import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from '../logger.ts'
import { startPeriodic } from '../periodic.ts'
import { counterIn, foldersIn, isCode, type Layout, listingFolder, makeLayout } from './groups.ts'
import type { Hierarchy } from './hierarchy.ts'

/*
 * A folder whose groups together give way to everything beside it. The kernel lets a thread that wakes up wait until the one that
 * runs has used up its slice of some milliseconds, whatever the weights of the two are, and that at each program that a request
 * passes. What wakes up beside a group that is idle (`cpu.idle`, since Linux 5.15) runs at once. The kernel compares two threads by
 * the groups at the level where their paths part: so the folder lies beside what it gives way to. Idle groups further down would
 * give way to the groups beside themselves alone.
 */

export interface Yielding {
  /** The place for groups in the folder. */
  readonly hierarchy: Hierarchy
  /** Files to which the processes of all groups write their pid, besides those of their own group. */
  readonly join: readonly string[]
  /** Sets the share of the folder from now on, until all groups that have begun have ended. */
  began(group: string): Promise<void>
  ended(group: string): void
  /** Deletes the folder when no group is left. */
  close(): Promise<void>
}

export interface YieldingPlace {
  readonly hierarchy: Hierarchy
  /** True where nothing else is in the hierarchy: then all of it gives way, to what is beside it. */
  readonly isOwn: boolean
}

export interface YieldingOptions {
  /** True while the groups are to leave a core to others, besides giving way to them. */
  readonly leavesCore: () => boolean
  readonly logger: Pick<Logger, 'error'>
}

const everyMs = 2_000

/**
 * Makes the folder; returns `null` where there is no place, or none that can be written.
 *
 * @param name of the folder; the same for the same server after a restart, and different for every other server
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
      // A server that led before may have removed them meanwhile.
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
      // Fails, as it should, while there are groups.
      for (const folder of new Set([...layout.folders.values(), ...members])) {
        await rmdir(folder).catch(() => undefined)
      }
    },
  }
}

/** Returns the hierarchy in which groups are made below a server's folder. */
function hierarchyOf(layout: Layout): Hierarchy {
  const { version, folders } = layout
  if (version === 1) return { version, folders: Object.fromEntries(folders) }
  const folder = listingFolder(layout)
  return { version, folders: { memory: folder, cpu: folder, pids: folder, freezer: folder } }
}

/**
 * Returns the file that counts the CPU time of all groups, and the group that their processes join to be counted, both `null` where
 * they do not exist. Version 1 counts by a controller of its own, which mostly has the folders of that of the CPU.
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

/** Returns `null`, too, where version 1 has limits and cores in one folder: processes are in folders of their groups there. */
async function coresOf(hierarchy: Hierarchy, { version, folders }: Layout, name: string): Promise<Cores | null> {
  const isShared =
    version === 1 && hierarchy.cores !== undefined && [...folders.values()].includes(join(hierarchy.cores, name))
  return isShared ? null : openCores(hierarchy, name)
}

interface SharedFolder {
  readonly version: 1 | 2
  /** The folder whose files set the share. */
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
      // The kernel refuses the weight of a group that is idle, and older ones lack the file that makes it so.
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
 * The cores of groups that give way. That they are idle is not enough: where two programs that a request passes share a core, one of
 * them interrupts the other. From Linux 6.6 on the kernel may then let an idle group run until its next tick before the one that was
 * interrupted. On a core without such groups it cannot.
 */

interface Cores {
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

/** The share that groups have of the CPU beside others: what these leave (`idle`), or a quarter of that of one of them (`low`). */
export type Share = 'idle' | 'low'

/** The CPU time that groups had together, and the time at which they had it; both in seconds. */
export interface CpuSample {
  readonly at: number
  /** `null` where the kernel does not count it. */
  readonly used: number | null
}

/** Groups that got less than this part of a core are helped. */
export const leastCores = 0.1

/**
 * Returns the share until the next sample. Groups that are idle get next to nothing while others use all cores, and would then never
 * come to their end: so they have a share whenever they got too little since the last sample, be it as idle groups or not. Where that
 * cannot be told, they always have it.
 *
 * @param last the sample before this one; `null` for the first
 */
export function shareAfter(last: CpuSample | null, now: CpuSample): Share {
  if (now.used === null) return 'low'
  if (last === null || last.used === null) return 'idle'
  return now.used - last.used < leastCores * (now.at - last.at) ? 'low' : 'idle'
}

/** A value of the share, to be written in this order. */
export interface ShareFile {
  readonly file: string
  readonly value: string
}

/**
 * Returns the files that set a share. The weight of a group that is idle cannot be set, and one that is idle no more has the usual one:
 * so the weight comes second. Linux before 5.15 has no `cpu.idle`; there groups have the low share alone.
 */
export function shareFiles(version: 1 | 2, share: Share): readonly ShareFile[] {
  const idle = { file: 'cpu.idle', value: share === 'idle' ? '1' : '0' }
  return [idle, version === 1 ? { file: 'cpu.shares', value: '256' } : { file: 'cpu.weight', value: '25' }]
}
