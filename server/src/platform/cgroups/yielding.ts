import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../logger.ts'
import { startPeriodic } from '../periodic.ts'
import { type Cores, openCores } from './cores.ts'
import type { Hierarchy } from './hierarchy.ts'
import { listingFolder } from './kill.ts'
import { type Layout, makeLayout } from './layout.ts'
import { counterIn } from './limits.ts'
import { type CpuSample, shareAfter, shareFiles } from './share.ts'

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
