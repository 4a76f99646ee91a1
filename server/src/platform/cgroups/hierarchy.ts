import { access, constants, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export const controllers = ['memory', 'cpu', 'pids', 'freezer'] as const
export type Controller = (typeof controllers)[number]

/** Groups can be made in these folders: one for each controller in version 1, the same for all in version 2. */
export interface Hierarchy {
  readonly version: 1 | 2
  readonly folders: GroupFolders
  /** The folder in which version 1 counts the CPU time of groups. In version 2 every group counts its own. */
  readonly cpuTime?: string
  /** The folder in which version 1 sets the cores of groups. In version 2 every group can set its cores. */
  readonly cores?: string
}

export type GroupFolders = Readonly<Partial<Record<Controller, string>>>

/** Version 1's controller that counts CPU time and limits nothing. */
const counting = 'cpuacct'

/** Version 1's controller of cores. Only groups that yield join it. */
const placing = 'cpuset'

/**
 * Returns the folders in which this process may make groups, from the texts of `/proc/self/cgroup` and
 * `/proc/self/mountinfo` (proc(5)); `null` when there is none.
 *
 * A group belongs to its creator. So `top` uses only hierarchies in which this process is in the topmost visible group:
 * a machine or container without a manager of groups. `delegated` uses the current group of the process, which systemd
 * has delegated (`Delegate=yes`). The server never moves to a group beside or above its current group, so all limits of
 * the server also apply to its apps. In version 2 the server moves to a child group (`ownGroup`). Its successor starts
 * in that child group and uses the same hierarchy.
 *
 * The name of a systemd unit selects the group of that unit, which is delegated and lies beside the server's unit.
 * systemd starts a process in the group of its unit, and version 2 refuses processes in a group whose children have
 * controllers. So if apps outlived a server in groups below the server's unit, the server could not start again.
 */
export function parseHierarchy(
  cgroup: string,
  mountinfo: string,
  place: 'top' | 'delegated' | `${string}.service`,
): Hierarchy | null {
  const own = groupPaths(cgroup)
  const paths = place === 'delegated' ? withoutOwnGroups(own) : place === 'top' ? own : pathsOfUnit(own, place)
  const first: Partial<Record<Controller, string>> = {}
  let cpuTime: string | undefined
  let cores: string | undefined
  let second: string | undefined
  for (const line of mountinfo.split('\n')) {
    const { root, point, type, options } = parseMount(line)
    const folderFor = (path: string | undefined): string | undefined => {
      const inside = path === undefined ? undefined : pathBelow(root, path)
      if (inside === undefined || (place === 'top' && inside !== '/')) return undefined
      return join(point, inside)
    }
    if (type === 'cgroup2') second ??= folderFor(paths.get(''))
    if (type !== 'cgroup') continue
    for (const controller of controllers) {
      const folder = options.includes(controller) ? folderFor(paths.get(controller)) : undefined
      if (folder !== undefined) first[controller] ??= folder
    }
    if (options.includes(counting)) cpuTime ??= folderFor(paths.get(counting))
    if (options.includes(placing)) cores ??= folderFor(paths.get(placing))
  }
  if (Object.keys(first).length > 0) {
    return { version: 1, folders: first, ...(cpuTime && { cpuTime }), ...(cores && { cores }) }
  }
  if (second === undefined) return null
  return { version: 2, folders: { memory: second, cpu: second, pids: second, freezer: second } }
}

/** Returns the group of this process for each controller. Version 2 has one group, under the empty name. */
function groupPaths(cgroup: string): ReadonlyMap<string, string> {
  const paths = new Map<string, string>()
  for (const line of cgroup.split('\n')) {
    const [, names, ...path] = line.split(':')
    for (const name of names?.split(',') ?? []) paths.set(name, path.join(':'))
  }
  return paths
}

/** Removes the group to which a server has moved itself (`ownGroup`) from the paths. */
function withoutOwnGroups(paths: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...paths].map(([name, path]) => [name, path.replace(/\/fairlead-[0-9a-f]+-server$/, '') || '/']))
}

/** Returns the name of the child group to which a server moves itself in version 2. @param name as for `makeLayout` */
export const ownGroup = (name: string): string => `${name}-server`

export interface Unit {
  readonly name: string
  readonly manager: 'system' | 'user'
}

/** Returns the unit that a process is in, by its `/proc/<pid>/cgroup`; `null` without systemd. */
export function unitOf(cgroup: string): Unit | null {
  const paths = groupPaths(cgroup)
  // Version 1 has a hierarchy for systemd's records.
  const parts = [paths.get(''), paths.get('name=systemd')].flatMap((path) => path?.split('/') ?? [])
  const at = parts.findLastIndex((part) => /\.(service|scope)$/.test(part))
  const name = parts[at]
  if (name === undefined) return null
  const isUsers = parts.slice(0, at).some((part) => /^user@\d+\.service$/.test(part))
  return { name, manager: isUsers ? 'user' : 'system' }
}

/** Returns the group of a unit beside the unit of this process: the same path in each hierarchy. */
function pathsOfUnit(own: ReadonlyMap<string, string>, unit: string): ReadonlyMap<string, string> {
  // Version 1 has a hierarchy for systemd's records; in the others the server may be at the top.
  const path = own.get('name=systemd') ?? own.get('')
  if (path === undefined || path === '/') return new Map()
  return new Map(['', ...controllers, counting, placing].map((name) => [name, join(dirname(path), unit)]))
}

function parseMount(line: string): { root: string; point: string; type: string | undefined; options: string[] } {
  const [before = '', after = ''] = line.split(' - ')
  const [, , , root = '', point = ''] = before.split(' ')
  const [type, , options = ''] = after.split(' ')
  return { root, point, type, options: options.split(',') }
}

/** Returns `path` relative to `root`, with a leading slash; `undefined` when it is outside. */
function pathBelow(root: string, path: string): string | undefined {
  if (root === '/') return path
  if (path === root) return '/'
  return path.startsWith(`${root}/`) ? path.slice(root.length) : undefined
}

/** Returns the controllers that groups in this hierarchy could have; changes nothing. */
export async function usableControllers({ version, folders }: Hierarchy): Promise<Controller[]> {
  const usable: Controller[] = []
  for (const controller of controllers) {
    const folder = folders[controller]
    if (folder === undefined) continue
    const writable = await access(folder, constants.W_OK).then(
      () => true,
      () => false,
    )
    const listed = version === 1 ? [controller] : await availableControllers(folder)
    if (writable && listed.includes(controller)) usable.push(controller)
  }
  return usable
}

/**
 * Returns the controllers of a group of version 2, and `freezer`, which version 2 always has. Returns none when the
 * group has only the freezer, because then nothing can be limited.
 */
export async function availableControllers(folder: string): Promise<Controller[]> {
  const names = (await readFile(join(folder, 'cgroup.controllers'), 'utf8').catch(() => '')).trim().split(' ')
  const listed = controllers.filter((each) => names.includes(each))
  return listed.length === 0 ? [] : [...listed, 'freezer']
}
