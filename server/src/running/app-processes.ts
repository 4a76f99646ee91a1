import { basename, dirname } from 'node:path'
import { controlGroupsOf, groupProcesses, killAll, uidsOf, variableOf } from '../platform/processes.ts'
import type { DataDirectory } from '../platform/startup/data-directory.ts'
import { groupName } from '../runtimes/process/confinement/capabilities.ts'
import { RELEASE_MARKER } from '../runtimes/process/release/environment.ts'
import { listApps, ownerOf, pathsOf } from '../runtimes/process/release/layout.ts'

/** The pids of the processes of each release, by the id of its deployment. */
export type AppProcesses = ReadonlyMap<string, readonly number[]>

/**
 * Finds the processes of builds and apps that provably belong to this data directory: by the marker in their environment,
 * which names a release of the directory whose user they have, or by the control group, whose name comes from the directory's path.
 */
export async function findAppProcesses({ root, apps }: Pick<DataDirectory, 'root' | 'apps'>): Promise<AppProcesses> {
  const owners = await ownersOfReleases(apps)
  const group = groupName(root)
  return groupProcesses((pid) => {
    const marked = variableOf(pid, RELEASE_MARKER)
    // Any user can give the marker to processes of its own.
    const isOwn = marked !== null && uidsOf(pid).includes(owners.get(marked) ?? Number.NaN)
    return isOwn ? marked : releaseOfGroup(controlGroupsOf(pid), group)
  })
}

/** Returns the uids of the users that the releases run as. */
async function ownersOfReleases(apps: string): Promise<Map<string, number | undefined>> {
  const listed = await Promise.all(
    (await listApps(apps)).map(async ({ id, releases }) => {
      const uid = await ownerOf(pathsOf(apps, { appId: id, id: '' }))
      return releases.map((release) => [release, uid] as const)
    }),
  )
  return new Map(listed.flat())
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
