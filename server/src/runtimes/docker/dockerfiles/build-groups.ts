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
 * The control groups of build daemons. The engine makes a group for each step below one path, which is the same in
 * every hierarchy of version 1. So the daemon's group has the same path in each, and its limits apply to all steps
 * together.
 */

export interface BuildGroups {
  make(name: string, limits: GroupLimits): Promise<BuildGroup>
  sweep(): Promise<void>
  close(): Promise<void>
}

export interface BuildGroup {
  /** The daemon joins the group by writing its pid to these files. */
  readonly join: readonly string[]
  /** The parent of the groups of steps, for the engine. */
  readonly parent: string
  processes(): Promise<number[]>
  /** Returns the limit that was exceeded in the group. */
  exceeded(): Promise<Exceeded | null>
  /** Ends all processes, and removes the group with its subgroups. */
  remove(): Promise<void>
}

interface Mount {
  readonly point: string
  readonly version: 1 | 2
  readonly options: readonly string[]
}

const needed = ['memory', 'cpu', 'pids'] as const satisfies readonly Controller[]

/**
 * Opens the groups where the machine can limit memory, CPU and processes by them; else returns null.
 *
 * @param hierarchy the hierarchy in which the server may make groups
 * @param name the name of the folder of all groups; the same after a restart of the server
 * @param yielding the folder that contains the hierarchy; null for groups that do not yield
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
    // The engine makes its groups in all hierarchies of version 1, also without limits.
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
        // The engine has made the parent in every hierarchy. With other groups in it, it must stay, and its removal
        // fails.
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

/** In version 2, a group with subgroups contains no processes. */
const leaf = 'daemon'

async function makeLeaf(folder: string): Promise<string> {
  await writeFile(join(folder, 'cgroup.subtree_control'), needed.map((each) => `+${each}`).join(' '))
  await mkdir(join(folder, leaf), { recursive: true })
  return join(folder, leaf)
}

/**
 * Returns a hierarchy in which all controllers of version 1 have the path of the pids controller. A server may be deep
 * in only one hierarchy.
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

function parseMounts(mountinfo: string): Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root, point] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    if (root !== '/' || point === undefined || (type !== 'cgroup' && type !== 'cgroup2')) return []
    return [{ point, version: type === 'cgroup' ? 1 : 2, options: options.split(',') }] as const
  })
}

/** The kernel charges memory in blocks, and refuses a block that does not fit. */
const chargedAtOnce = 1_000_000

/**
 * Version 1 counts a kill in the group of the killed process, which the engine has removed by then. So memory was
 * exceeded when the group of the daemon has reached its limit and the kernel has killed some process of the machine
 * since the start of the build.
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

const killsOfMachine = async (): Promise<number> =>
  counterIn(await readFile('/proc/vmstat', 'utf8').catch(() => ''), 'oom_kill')
