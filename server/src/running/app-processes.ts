import type { DataDirectory } from '../platform/data-directory.ts'
import { controlGroupsOf, groupProcesses, killAll, uidsOf } from '../platform/processes.ts'
import { isRoot } from '../platform/state.ts'
import { findNetworkTools } from '../runtimes/process/confinement/capabilities.ts'
import { unitOfGroups } from '../runtimes/process/confinement/groups.ts'
import { readMarks } from '../runtimes/process/marks.ts'
import { removeNetworks } from '../runtimes/process/network/namespaces.ts'
import { removePastaNetworks } from '../runtimes/process/network/pasta-networks.ts'
import { listApps, ownerOf, pathsOf } from '../runtimes/process/release-folders.ts'

/** The pids of each release, by deployment id. */
export type AppProcesses = ReadonlyMap<string, readonly number[]>

/**
 * Finds the processes of builds and apps that provably belong to this data directory. The proof is either a mark in the
 * environment, which names a release of the directory that has the same user, or the control group, whose name comes
 * from the path of the directory.
 */
export async function findAppProcesses({
  root,
  apps,
  processMarks,
}: Pick<DataDirectory, 'root' | 'apps' | 'processMarks'>): Promise<AppProcesses> {
  const marks = await readMarks(processMarks)
  const owners = await ownersOfReleases(apps)
  return groupProcesses((pid) => {
    const marked = marks.releaseOf(pid)
    const isOwn = marked !== null && uidsOf(pid).includes(owners.get(marked) ?? Number.NaN)
    return isOwn ? marked : unitOfGroups(controlGroupsOf(pid), root)
  })
}

async function ownersOfReleases(apps: string): Promise<Map<string, number | undefined>> {
  const listed = await Promise.all(
    (await listApps(apps)).map(async ({ id, releases }) => {
      const uid = await ownerOf(pathsOf(apps, { appId: id, id: '' }))
      return releases.map((release) => [release, uid] as const)
    }),
  )
  return new Map(listed.flat())
}

/**
 * Ends these processes and their descendants: SIGTERM, then SIGKILL after `graceMs`. Removes their networks. Returns
 * the releases.
 */
export async function endAppProcesses(
  directory: Pick<DataDirectory, 'root' | 'apps' | 'processMarks'>,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly string[]> {
  const found = await findAppProcesses(directory)
  if (found.size > 0) {
    const members = async () => [...(await findAppProcesses(directory)).values()].flat()
    await killAll({ members }, { graceMs })
  }
  const tools = isRoot() ? await findNetworkTools() : null
  if (tools !== null) await removeNetworks(tools, directory.root)
  await removePastaNetworks(directory.root)
  return [...found.keys()]
}
