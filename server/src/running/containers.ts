import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type DataDirectory, directoryId } from '../platform/data-directory.ts'
import { readOptional } from '../platform/files.ts'
import { isRoot } from '../platform/state.ts'
import { createContainers } from '../runtimes/docker/calls.ts'
import { createEngine } from '../runtimes/docker/client.ts'
import { endContainer } from '../runtimes/docker/end.ts'
import { isAway } from '../runtimes/docker/errors.ts'
import { releaseLabel } from '../runtimes/docker/names.ts'
import { removeHostNetwork } from '../runtimes/docker/network/host-network.ts'
import { sweepNetworks } from '../runtimes/docker/network/networks.ts'
import { findNetworkTools } from '../runtimes/process/confinement/capabilities.ts'

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
