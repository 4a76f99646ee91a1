import { basename, dirname } from 'node:path'
import { controlGroupsOf, groupProcesses, killAll, variableOf } from '../platform/processes.ts'
import type { DataDirectory } from '../platform/startup/data-directory.ts'
import { groupName } from '../runtimes/process/confinement/capabilities.ts'
import { RELEASE_MARKER } from '../runtimes/process/release/environment.ts'
import { listApps } from '../runtimes/process/release/layout.ts'

/** The pids of the processes of each release, by the id of its deployment. */
export type AppProcesses = ReadonlyMap<string, readonly number[]>

/**
 * Finds the processes of builds and apps that provably belong to this data directory: by the marker in their environment,
 * which names a release of the directory, or by the control group, whose name comes from the directory's path.
 */
export async function findAppProcesses({ root, apps }: Pick<DataDirectory, 'root' | 'apps'>): Promise<AppProcesses> {
  const releases = new Set((await listApps(apps)).flatMap((app) => app.releases))
  const group = groupName(root)
  return groupProcesses((pid) => {
    const marked = variableOf(pid, RELEASE_MARKER)
    return marked !== null && releases.has(marked) ? marked : releaseOfGroup(controlGroupsOf(pid), group)
  })
}

/** The group of a release is a folder in the group of the data directory: `<group>/<release>.app`. */
function releaseOfGroup(paths: readonly string[], group: string): string | null {
  const own = paths.find((path) => basename(dirname(path)) === group)
  return own === undefined ? null : basename(own).replace(/\.(build|app)$/, '')
}

/** Ends these processes and all that belong to them: SIGTERM, and SIGKILL after `graceMs`. Returns the releases. */
export async function endAppProcesses(
  directory: Pick<DataDirectory, 'root' | 'apps'>,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly string[]> {
  const found = await findAppProcesses(directory)
  if (found.size === 0) return []
  const members = async () => [...(await findAppProcesses(directory)).values()].flat()
  await killAll({ members }, { graceMs })
  return [...found.keys()]
}
