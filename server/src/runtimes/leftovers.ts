import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DataDirectory } from '../platform/data-directory.ts'
import { directoryId } from '../platform/data-directory.ts'
import { readOptional } from '../platform/files.ts'
import { controlGroupsOf, groupProcesses, killAll, uidsOf } from '../platform/processes.ts'
import { isRoot } from '../platform/state.ts'
import { createContainers } from './docker/calls.ts'
import { createEngine } from './docker/client.ts'
import { findRunningDaemons, type RunningDaemon } from './docker/dockerfiles/daemon-record.ts'
import { endContainer } from './docker/end.ts'
import { isAway } from './docker/errors.ts'
import { releaseLabel } from './docker/names.ts'
import { removeHostNetwork } from './docker/network/host-network.ts'
import { sweepNetworks } from './docker/network/networks.ts'
import { findNetworkTools } from './process/confinement/capabilities.ts'
import { unitOfGroups } from './process/confinement/groups.ts'
import { fromHandle, runtimeName } from './process/handle.ts'
import { readMarks } from './process/marks.ts'
import { removeNetworks } from './process/network/namespaces.ts'
import { removePastaNetworks } from './process/network/pasta-networks.ts'
import { listApps, ownerOf, pathsOf } from './process/release-folders.ts'
import { isServed } from './process/site-record.ts'
import type { Handle } from './runtime.ts'

/* Finds and ends what the runtimes have started for a data directory, with or without a server. */

export { runtimeName as nameOfProcesses } from './process/handle.ts'

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
 * Sends SIGTERM, then SIGKILL after `graceMs`, to these processes and their descendants, and removes their networks.
 * Returns the releases.
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

export async function isServedSite(handle: Handle): Promise<boolean> {
  const site = handle.runtime === runtimeName ? fromHandle(handle).site : undefined
  return site !== undefined && (await isServed(site))
}

/** Finds the engines that build Dockerfiles. They normally end with their server. */
export const findBuilds = ({ imageBuilds }: Pick<DataDirectory, 'imageBuilds'>): Promise<readonly RunningDaemon[]> =>
  findRunningDaemons(imageBuilds)

export async function endBuilds(directory: Pick<DataDirectory, 'imageBuilds'>): Promise<readonly RunningDaemon[]> {
  const running = await findBuilds(directory)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs: 0 })
  return running
}

/**
 * The file that names the engine with the containers of a data directory, for commands that do not know the settings.
 */
const engineFile = (root: string): string => join(root, 'docker-engine')

/** Stores the socket of the engine that this data directory uses from now on. */
export async function noteEngine({ root }: Pick<DataDirectory, 'root'>, socket: string): Promise<void> {
  await writeFile(engineFile(root), `${socket}\n`, { mode: 0o600 })
}

/**
 * Ends the containers of a data directory, and removes their networks. Keeps the containers, because a later server
 * reads their last output. Returns the releases whose containers ran.
 *
 * @throws Error when the engine does not answer, because its containers may still run
 */
export async function endContainers(
  { root }: Pick<DataDirectory, 'root'>,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly string[]> {
  const socket = (await readOptional(engineFile(root)))?.trim()
  if (socket === undefined || socket === '') return []
  const engine = createEngine(socket)
  const server = await directoryId(root)
  const containers = createContainers(engine, server, () => undefined)
  try {
    const running = (await containers.list({})).filter(({ State }) => State === 'running' || State === 'paused')
    await Promise.all(running.map(({ Id }) => endContainer(containers, Id, { graceMs })))
    const isEmpty = await sweepNetworks({ engine, server })
    const tools = isEmpty && isRoot() ? await findNetworkTools() : null
    if (tools !== null) await removeHostNetwork(tools, root)
    return [...new Set(running.map(({ Labels }) => Labels[releaseLabel] ?? ''))]
  } catch (error) {
    if (!isAway(error)) throw error
    throw new Error(
      `The Docker engine at ${socket} does not answer: containers of this data directory may still run.`,
      {
        cause: error,
      },
    )
  }
}
