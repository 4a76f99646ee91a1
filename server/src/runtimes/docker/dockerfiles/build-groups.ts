import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import {
  type Controller,
  controllers,
  counterIn,
  type Exceeded,
  type GroupLimits,
  type Hierarchy,
  openCgroups,
  removeGroup,
  usableControllers,
  type Yielding,
} from '../../../platform/cgroups.ts'

/*
 * The control groups of build daemons. The engine makes a group for each step of a build below one path, which is the same in
 * every hierarchy of version 1: so the group of the daemon has one path as well, and its limits hold for all of its steps
 * together.
 */

export interface BuildGroups {
  /** Makes the group of a daemon. */
  make(name: string, limits: GroupLimits): Promise<BuildGroup>
  /** Ends what runs in the groups that an earlier server has left, and removes them. */
  sweep(): Promise<void>
  close(): Promise<void>
}

export interface BuildGroup {
  /** Files to which the daemon writes its pid to join it. */
  readonly join: readonly string[]
  /** The path below which the engine makes the groups of steps. */
  readonly parent: string
  processes(): Promise<number[]>
  /** The limit that something in the group has run into. */
  exceeded(): Promise<Exceeded | null>
  /** Ends every process of the group, and removes it with those below. */
  remove(): Promise<void>
}

/** A mounted hierarchy of control groups. */
interface Mount {
  readonly point: string
  readonly version: 1 | 2
  readonly options: readonly string[]
}

const needed = ['memory', 'cpu', 'pids'] as const satisfies readonly Controller[]

/**
 * Opens the groups where the machine can limit memory, CPU and processes by them; else returns null.
 *
 * @param hierarchy in which the server may make groups
 * @param name of the folder of all groups; the same for the same server after a restart
 * @param yielding the place of which the hierarchy is; null for groups that do not give way
 */
export async function openBuildGroups(
  hierarchy: Hierarchy | null,
  name: string,
  yielding: Yielding | null,
): Promise<BuildGroups | null> {
  const mounts = parseMounts(await readFile('/proc/self/mountinfo', 'utf8').catch(() => ''))
  const everywhere = hierarchy === null ? null : samePath(hierarchy, mounts)
  const cgroups = await openCgroups(everywhere, name, yielding)
  if (cgroups === null || needed.some((each) => !cgroups.controllers.has(each))) return null
  const pathOf = (folder: string) => `/${relative(mountOf(mounts, folder)?.point ?? '/', folder)}`

  const removeEverywhere = async (group: string, path: string): Promise<void> => {
    if (cgroups.version === 2) await cgroups.kill(`${group}/${leaf}`)
    await cgroups.remove(group)
    // The engine makes its groups in all hierarchies of version 1, also in those that limit nothing.
    for (const { point } of mounts) await removeGroup(join(point, path)).catch(() => undefined)
  }
  const root = everywhere?.folders.pids ?? '/'

  return {
    async make(group, limits) {
      const files = await cgroups.make(group, limits)
      const folder = dirname(files[0] ?? '/')
      const parent = pathOf(folder)
      const killedBefore = await killsOfMachine()
      return {
        join: cgroups.version === 1 ? files : [join(await makeLeaf(folder), 'cgroup.procs')],
        parent,
        processes: () => cgroups.processesOf(cgroups.version === 1 ? group : `${group}/${leaf}`),
        exceeded: () =>
          cgroups.version === 2 ? cgroups.exceeded(group) : exceededInVersion1(files, limits, killedBefore),
        remove: () => removeEverywhere(group, parent),
      }
    },

    async sweep() {
      for (const group of await cgroups.names()) await removeEverywhere(group, pathOf(join(root, name, group)))
    },

    async close() {
      await cgroups.close()
      for (const { point } of mounts) {
        const own = join(point, pathOf(join(root, name)))
        await removeGroup(own).catch(() => undefined)
        // The engine has made it everywhere. It stays, as it should, where it has other groups.
        if (yielding !== null) await rmdir(dirname(own)).catch(() => undefined)
      }
    },
  }
}

/** True where the server can make such groups. Changes nothing. */
export async function canLimitBuilds(hierarchy: Hierarchy | null): Promise<boolean> {
  const mounts = parseMounts(await readFile('/proc/self/mountinfo', 'utf8').catch(() => ''))
  const everywhere = hierarchy === null ? null : samePath(hierarchy, mounts)
  const usable = everywhere === null ? [] : await usableControllers(everywhere)
  return needed.every((each) => usable.includes(each))
}

/** In version 2, processes are in groups without groups below alone. */
const leaf = 'daemon'

async function makeLeaf(folder: string): Promise<string> {
  await writeFile(join(folder, 'cgroup.subtree_control'), needed.map((each) => `+${each}`).join(' '))
  await mkdir(join(folder, leaf), { recursive: true })
  return join(folder, leaf)
}

/**
 * Returns a hierarchy in which all controllers of version 1 have the path that the one of processes has. A server may be deep
 * in one of them alone.
 */
function samePath(hierarchy: Hierarchy, mounts: readonly Mount[]): Hierarchy | null {
  const { pids } = hierarchy.folders
  if (hierarchy.version === 2 || pids === undefined) return hierarchy.version === 2 ? hierarchy : null
  const path = relative(mountOf(mounts, pids)?.point ?? '/', pids)
  const folders = controllers.flatMap((controller) => {
    const mount = mounts.find(({ version, options }) => version === 1 && options.includes(controller))
    return mount === undefined ? [] : [[controller, join(mount.point, path)] as const]
  })
  return { version: 1, folders: Object.fromEntries(folders) }
}

const mountOf = (mounts: readonly Mount[], folder: string): Mount | undefined =>
  mounts.filter(({ point }) => folder === point || folder.startsWith(`${point}/`)).sort(longestFirst)[0]

const longestFirst = (one: Mount, other: Mount): number => other.point.length - one.point.length

/** Reads the mounts of whole hierarchies from `/proc/self/mountinfo`. */
function parseMounts(mountinfo: string): Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root, point] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    if (root !== '/' || point === undefined || (type !== 'cgroup' && type !== 'cgroup2')) return []
    return [{ point, version: type === 'cgroup' ? 1 : 2, options: options.split(',') }] as const
  })
}

/** The kernel takes memory for a group in pieces, and none that would not fit whole. */
const chargedAtOnce = 1_000_000

/**
 * Version 1 counts what ends a process in the group of that process, which the engine has removed by then. So memory was
 * exceeded when the daemon's group has reached its limit and the kernel has ended some process of the machine meanwhile.
 */
async function exceededInVersion1(
  files: readonly string[],
  limits: GroupLimits,
  killedBefore: number,
): Promise<Exceeded | null> {
  const read = async (name: string): Promise<number> => {
    const texts = await Promise.all(files.map((file) => readFile(join(dirname(file), name), 'utf8').catch(() => '0')))
    return Math.max(...texts.map(Number))
  }
  const wasFull = (await read('memory.max_usage_in_bytes')) > limits.memoryBytes - chargedAtOnce
  if (wasFull && (await killsOfMachine()) > killedBefore) return 'memory'
  return (await read('pids.peak')) >= limits.processes ? 'processes' : null
}

/** Returns how many processes the kernel has ended for want of memory since its start. */
const killsOfMachine = async (): Promise<number> =>
  counterIn(await readFile('/proc/vmstat', 'utf8').catch(() => ''), 'oom_kill')
