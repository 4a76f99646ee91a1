import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Cgroups, type Hierarchy, openCgroups, parseHierarchy } from '../../../platform/cgroups.ts'
import type { Config } from '../../../platform/config.ts'
import type { GroupFolders } from './group-usage.ts'
import { findProgram } from './programs.ts'
import { findSandbox, type Sandbox } from './sandbox.ts'

/** The features of this machine that confine builds and apps; `null` for those that it lacks. */
export interface HostCapabilities {
  readonly cgroups: Cgroups | null
  /** The folders below which the groups lie. */
  readonly groupFolders: GroupFolders
  /** util-linux's program. */
  readonly prlimit: string | null
  /** Bubblewrap. `null` where the server is root: there users of their own separate the apps. */
  readonly sandbox: Sandbox | null
  /** Folders that sandboxed programs may read besides the system's. */
  readonly programs: readonly string[]
  /** Hidden from sandboxed programs, except for their own folders. */
  readonly dataDirectory: string
}

/** A machine that can confine nothing. */
export const noCapabilities: HostCapabilities = {
  cgroups: null,
  groupFolders: {},
  prlimit: null,
  sandbox: null,
  programs: [],
  dataDirectory: '/nowhere',
}

/** Finds out what this machine can confine builds and apps with, and makes the server's control group. */
export async function detectCapabilities(options: {
  readonly cgroups: Config['cgroups']
  /** The server's own PATH. */
  readonly path: string
  /** The data directory, which tells the servers of a machine apart. */
  readonly directory: string
  readonly isRoot: boolean
  readonly programs: readonly string[]
}): Promise<HostCapabilities> {
  const hierarchy = await readHierarchy(options.cgroups)
  const name = groupName(options.directory)
  const cgroups = await openCgroups(hierarchy, name)
  return {
    cgroups,
    groupFolders: cgroups === null || hierarchy === null ? {} : groupFolders(cgroups, hierarchy, name),
    prlimit: await findProgram('prlimit', options.path),
    sandbox: options.isRoot ? null : await findSandbox(options.path),
    programs: options.programs,
    dataDirectory: options.directory,
  }
}

/** Returns the name of the control group of the server with this data directory. */
export function groupName(directory: string): string {
  return `fairlead-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
}

/** Returns `null` on systems without control groups. */
export async function readHierarchy(place: Config['cgroups']): Promise<Hierarchy | null> {
  try {
    const [cgroup, mountinfo] = await Promise.all([
      readFile('/proc/self/cgroup', 'utf8'),
      readFile('/proc/self/mountinfo', 'utf8'),
    ])
    return parseHierarchy(cgroup, mountinfo, place)
  } catch {
    return null
  }
}

/** Returns the capabilities in words for the server's log. */
export function describeCapabilities({
  cgroups,
  prlimit,
  sandbox,
}: Pick<HostCapabilities, 'cgroups' | 'prlimit' | 'sandbox'>): Record<string, string | boolean> {
  return {
    cgroups: cgroups === null ? 'none' : `version ${cgroups.version}: ${[...cgroups.controllers].join(', ')}`,
    prlimit: prlimit !== null,
    bubblewrap: sandbox !== null,
  }
}

function groupFolders({ controllers }: Cgroups, { folders }: Hierarchy, name: string): GroupFolders {
  return Object.fromEntries(
    [...controllers].flatMap((controller) => {
      const folder = folders[controller]
      return folder === undefined ? [] : [[controller, join(folder, name)]]
    }),
  )
}
