import { access, constants, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/*
 * Control groups of Linux, of both versions (the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst): what a group of
 * processes may use, which processes are in it whatever they did to hide, and their certain end.
 */

export const controllers = ['memory', 'cpu', 'pids', 'freezer'] as const
export type Controller = (typeof controllers)[number]

export interface GroupLimits {
  readonly memoryBytes: number
  readonly cpus: number
  /** Threads count, too. */
  readonly processes: number
  /** Gets a quarter of the share of others where the CPU is short. */
  readonly givesWay: boolean
}

/** The limit that a group ran into. */
export type Exceeded = 'memory' | 'processes'

/** Where groups can be made: in version 1 a folder for each controller, in version 2 the same for all. */
export interface Hierarchy {
  readonly version: 1 | 2
  readonly folders: Readonly<Partial<Record<Controller, string>>>
}

/** The groups of one server, by names of its choice. Safe to call for groups that are not there. */
export interface Cgroups {
  readonly version: 1 | 2
  /** What can be limited here. */
  readonly controllers: ReadonlySet<Controller>
  /** Makes a group, empty and with nothing counted yet; gives the files that a process joins by writing its pid. */
  make(name: string, limits: GroupLimits): Promise<string[]>
  names(): Promise<string[]>
  processesOf(name: string): Promise<number[]>
  exceeded(name: string): Promise<Exceeded | null>
  /** Ends every process of the group: none can fork its way out, as they are frozen first. */
  kill(name: string): Promise<void>
  /** Ends what is in the group, and deletes it. */
  remove(name: string): Promise<void>
  /** Deletes the groups without processes, and what held them when none is left. */
  close(): Promise<void>
}

const periodMicroseconds = 100_000
const pollMs = 10
const freezeDeadlineMs = 1_000
const killDeadlineMs = 10_000

/** What is written where in a new group, in this order. A file may be missing in kernels without swap accounting. */
export function limitFiles(
  version: 1 | 2,
  limits: GroupLimits,
): { controller: Controller; file: string; value: string; optional?: true }[] {
  const { memoryBytes, cpus, processes, givesWay } = limits
  const memory = String(memoryBytes)
  const quota = String(Math.max(1_000, Math.round(cpus * periodMicroseconds)))
  if (version === 1) {
    return [
      { controller: 'memory', file: 'memory.limit_in_bytes', value: memory },
      // Memory and swap together; only ever at or above the limit before.
      { controller: 'memory', file: 'memory.memsw.limit_in_bytes', value: memory, optional: true },
      { controller: 'cpu', file: 'cpu.cfs_period_us', value: String(periodMicroseconds) },
      { controller: 'cpu', file: 'cpu.cfs_quota_us', value: quota },
      { controller: 'cpu', file: 'cpu.shares', value: givesWay ? '256' : '1024' },
      { controller: 'pids', file: 'pids.max', value: String(processes) },
    ]
  }
  return [
    { controller: 'memory', file: 'memory.max', value: memory },
    { controller: 'memory', file: 'memory.swap.max', value: '0', optional: true },
    { controller: 'cpu', file: 'cpu.max', value: `${quota} ${periodMicroseconds}` },
    { controller: 'cpu', file: 'cpu.weight', value: givesWay ? '25' : '100' },
    { controller: 'pids', file: 'pids.max', value: String(processes) },
  ]
}

/** The files that count how often a limit was met, each with the counter's name. */
export function counterFiles(
  version: 1 | 2,
): { controller: Controller; file: string; name: string; means: Exceeded }[] {
  return [
    {
      controller: 'memory',
      file: version === 1 ? 'memory.oom_control' : 'memory.events',
      name: 'oom_kill',
      means: 'memory',
    },
    { controller: 'pids', file: 'pids.events', name: 'max', means: 'processes' },
  ]
}

/** A number out of lines of `name value`; 0 when it is not there. */
export function counterIn(text: string, name: string): number {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}

/**
 * Where this process may make groups, by `/proc/self/cgroup` and `/proc/self/mountinfo` (proc(5)); `null` for nowhere.
 *
 * A group belongs to whoever made it. So `top` uses only hierarchies in which this process is in the topmost group that
 * it sees: a machine or container without a manager of groups. `delegated` uses the group that the process is in: the
 * operator says that it was handed over (`Delegate=yes` of systemd). Never is a group left for one beside or above it,
 * so whatever limits the server limits its apps, too.
 */
export function parseHierarchy(cgroup: string, mountinfo: string, place: 'top' | 'delegated'): Hierarchy | null {
  const paths = new Map<string, string>()
  for (const line of cgroup.split('\n')) {
    const [, names, ...path] = line.split(':')
    for (const name of names?.split(',') ?? []) paths.set(name, path.join(':'))
  }
  const first: Partial<Record<Controller, string>> = {}
  let second: string | undefined
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root = '', point = ''] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    const folderFor = (path: string | undefined): string | undefined => {
      const inside = path === undefined ? undefined : below(root, path)
      if (inside === undefined || (place === 'top' && inside !== '/')) return undefined
      return join(point, inside)
    }
    if (type === 'cgroup2') second ??= folderFor(paths.get(''))
    if (type !== 'cgroup') continue
    for (const controller of controllers) {
      const folder = options.split(',').includes(controller) ? folderFor(paths.get(controller)) : undefined
      if (folder !== undefined) first[controller] ??= folder
    }
  }
  if (Object.keys(first).length > 0) return { version: 1, folders: first }
  if (second === undefined) return null
  return { version: 2, folders: { memory: second, cpu: second, pids: second, freezer: second } }
}

function below(root: string, path: string): string | undefined {
  if (root === '/') return path
  if (path === root) return '/'
  return path.startsWith(`${root}/`) ? path.slice(root.length) : undefined
}

/**
 * Makes a server's folder in each hierarchy that can be written; `null` when there is none that tells which processes
 * are in a group.
 *
 * @param name of the folder; the same for the same server after a restart, and no other's
 */
export async function openCgroups(hierarchy: Hierarchy | null, name: string): Promise<Cgroups | null> {
  if (hierarchy === null) return null
  const { version } = hierarchy
  const folders = new Map<Controller, string>()
  if (version === 2) {
    const parent = hierarchy.folders.pids ?? ''
    for (const controller of await delegate(parent, name)) folders.set(controller, join(parent, name))
  } else {
    for (const controller of controllers) {
      const parent = hierarchy.folders[controller]
      if (parent === undefined) continue
      const made = await mkdir(join(parent, name), { recursive: true }).then(
        () => true,
        () => false,
      )
      if (made) folders.set(controller, join(parent, name))
    }
  }
  return folders.size === 0 ? null : createCgroups(version, folders)
}

/** The controllers that groups made there could have; changes nothing. */
export async function usableControllers({ version, folders }: Hierarchy): Promise<Controller[]> {
  const usable: Controller[] = []
  for (const controller of controllers) {
    const folder = folders[controller]
    if (folder === undefined) continue
    const writable = await access(folder, constants.W_OK).then(
      () => true,
      () => false,
    )
    const listed = version === 1 ? [controller] : await available(folder)
    if (writable && listed.includes(controller)) usable.push(controller)
  }
  return usable
}

/** Of version 2; the freezer is built in there. Nothing to limit with counts as nothing at all. */
async function available(folder: string): Promise<Controller[]> {
  const names = (await readFile(join(folder, 'cgroup.controllers'), 'utf8').catch(() => '')).trim().split(' ')
  const listed = controllers.filter((each) => names.includes(each))
  return listed.length === 0 ? [] : [...listed, 'freezer']
}

/** Passes the controllers on to the groups below (version 2); gives those that arrived, and `freezer`, which is built in. */
async function delegate(parent: string, name: string): Promise<Controller[]> {
  try {
    const listed = await available(parent)
    if (listed.length === 0) return []
    const wanted = listed.filter((each) => each !== 'freezer')
    const folder = join(parent, name)
    await mkdir(folder, { recursive: true })
    const value = wanted.map((each) => `+${each}`).join(' ')
    await writeFile(join(parent, 'cgroup.subtree_control'), value).catch(async (error: unknown) => {
      if (!isCode(error, 'EBUSY')) throw error
      // A group passes controllers on only when no process is in it itself: this one steps aside.
      const own = join(parent, `${name}-server`)
      await mkdir(own, { recursive: true })
      await writeFile(join(own, 'cgroup.procs'), String(process.pid))
      await writeFile(join(parent, 'cgroup.subtree_control'), value)
    })
    await writeFile(join(folder, 'cgroup.subtree_control'), value)
    return listed
  } catch {
    return []
  }
}

function createCgroups(version: 1 | 2, folders: ReadonlyMap<Controller, string>): Cgroups {
  const bases = [...new Set(folders.values())]
  // Each holds the same processes; the freezer's is what is frozen.
  const listing = folders.get('freezer') ?? bases[0] ?? ''
  const inEach = (name: string): string[] => bases.map((base) => join(base, name))

  const processesOf = async (name: string): Promise<number[]> => {
    const text = await readFile(join(listing, name, 'cgroup.procs'), 'utf8').catch(() => '')
    return text.split('\n').filter(Boolean).map(Number)
  }

  const freeze = async (name: string, frozen: boolean): Promise<void> => {
    const folder = folders.get('freezer')
    if (folder === undefined || version === 2) return
    const file = join(folder, name, 'freezer.state')
    const deadline = performance.now() + freezeDeadlineMs
    do {
      await writeFile(file, frozen ? 'FROZEN' : 'THAWED').catch(() => undefined)
      // While some process is in the kernel the state is FREEZING.
      if (!frozen || (await readFile(file, 'utf8').catch(() => 'FROZEN')).trim() === 'FROZEN') return
      await sleep(pollMs)
    } while (performance.now() < deadline)
  }

  const kill: Cgroups['kill'] = async (name) => {
    const deadline = performance.now() + killDeadlineMs
    for (;;) {
      if ((await processesOf(name)).length === 0) return
      if (performance.now() > deadline) throw new Error(`the processes of the group ${name} outlive SIGKILL`)
      if (version === 2) await writeFile(join(listing, name, 'cgroup.kill'), '1').catch(() => undefined)
      await freeze(name, true)
      for (const pid of await processesOf(name)) sendKill(pid)
      // The signal is taken when they go on.
      await freeze(name, false)
      await sleep(pollMs)
    }
  }

  const remove: Cgroups['remove'] = async (name) => {
    await kill(name)
    for (const folder of inEach(name)) await removeGroup(folder)
  }

  const names = async (): Promise<string[]> => {
    const entries = await readdir(listing, { withFileTypes: true }).catch(() => [])
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  }

  return {
    version,
    controllers: new Set(folders.keys()),
    processesOf,
    kill,
    remove,
    names,

    async make(name, limits) {
      await remove(name)
      for (const folder of inEach(name)) await mkdir(folder, { recursive: true })
      for (const { controller, file, value, optional } of limitFiles(version, limits)) {
        const folder = folders.get(controller)
        if (folder === undefined) continue
        await writeFile(join(folder, name, file), value).catch((error: unknown) => {
          if (optional !== true) throw error
        })
      }
      return inEach(name).map((folder) => join(folder, 'cgroup.procs'))
    },

    async exceeded(name) {
      for (const { controller, file, name: counter, means } of counterFiles(version)) {
        const folder = folders.get(controller)
        if (folder === undefined) continue
        const text = await readFile(join(folder, name, file), 'utf8').catch(() => '')
        if (counterIn(text, counter) > 0) return means
      }
      return null
    },

    async close() {
      for (const name of await names()) {
        if ((await processesOf(name)).length === 0) await remove(name).catch(() => undefined)
      }
      // Not empty when apps run on.
      for (const base of bases) await rmdir(base).catch(() => undefined)
    },
  }
}

/** A group stays busy for a moment after its last process has ended. */
async function removeGroup(folder: string): Promise<void> {
  const deadline = performance.now() + killDeadlineMs
  for (;;) {
    try {
      return await rmdir(folder)
    } catch (error) {
      if (isCode(error, 'ENOENT')) return
      if (!isCode(error, 'EBUSY') || performance.now() > deadline) throw error
    }
    await sleep(pollMs)
  }
}

function sendKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has just ended.
  }
}

const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
