import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { openCgroups, parseHierarchy } from '../../platform/cgroups.ts'
import type { Config } from '../../platform/config.ts'
import type { Means } from './confinement.ts'
import { findProgram, findSandbox } from './sandbox.ts'

/** Looks at what this machine offers to hold builds and apps with, and makes the server's control group. */
export async function findMeans(options: {
  readonly cgroups: Config['cgroups']
  /** The server's own PATH. */
  readonly path: string
  /** The data directory: servers on the same machine keep apart by it. */
  readonly directory: string
  readonly isRoot: boolean
  readonly programs: readonly string[]
}): Promise<Means> {
  const hierarchy = await readHierarchy(options.cgroups)
  return {
    cgroups: await openCgroups(hierarchy, groupName(options.directory)),
    prlimit: await findProgram('prlimit', options.path),
    sandbox: options.isRoot ? null : await findSandbox(options.path),
    programs: options.programs,
    dataDirectory: options.directory,
  }
}

/** The control group of the server with this data directory. */
export function groupName(directory: string): string {
  return `fairlead-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
}

/** `null` on systems without control groups. */
export async function readHierarchy(place: Config['cgroups']): Promise<ReturnType<typeof parseHierarchy>> {
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

/** For the log. */
export function describeMeans({ cgroups, prlimit, sandbox }: Means): Record<string, unknown> {
  return {
    cgroups: cgroups === null ? 'none' : `version ${cgroups.version}: ${[...cgroups.controllers].join(', ')}`,
    prlimit: prlimit !== null,
    bubblewrap: sandbox !== null,
  }
}
