import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { placeOfBuilds } from '../../../server/src/runtimes/process/confinement/groups.ts'

/** Returns the list of the cores that a process may run on. */
export async function coresOf(pid: number): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return /^Cpus_allowed_list:\s*(.*)$/m.exec(status)?.[1] ?? ''
}

/** Returns whether a build can leave a core free here. */
export async function canSetCores(): Promise<boolean> {
  const { hierarchy } = (await placeOfBuilds(null)) ?? {}
  if (hierarchy === undefined || availableParallelism() === 1) return false
  if (hierarchy.version === 1) return hierarchy.cores !== undefined
  const controllers = await readFile(join(hierarchy.folders.cpu ?? '', 'cgroup.controllers'), 'utf8').catch(() => '')
  return controllers.split(/\s/).includes('cpuset')
}
