import { createHash } from 'node:crypto'
import { chmod, type FileHandle, open, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AddressRange } from '../../../platform/config.ts'
import { exists } from '../../../platform/files.ts'
import { assetFile } from '../../../platform/machine/own-files.ts'
import { copyOnce } from '../../../platform/machine/reach.ts'
import { bridgeNamesOf } from '../../network/addresses.ts'
import { policyOf, publishedPorts, publishPort, removeHostTable, setHostTable } from '../../network/host-table.ts'
import type { Reach } from '../../network/reach.ts'
import { inputPath, runTool, type Tools } from '../../network/tools.ts'
import { containerRules } from './inside-rules.ts'

/** The part of containers' networks that this machine adds to the engine's: rules on the host, and inside of each. */
export interface HostNetwork {
  /** Leads from a bridge to the services of the host's loopback, and restores the host's rules if something has removed them. */
  prepare(bridge: string): Promise<void>
  /** Removes a bridge of this server that the engine has left, as it does when it cannot complete a network. */
  discard(bridge: string): Promise<void>
  /** Sets the rules inside the network of a container; does nothing when it has ended. */
  complete(container: RunningContainer): Promise<void>
  /** Lets containers reach the port of an app, which the gateway has opened on this machine. */
  publish(port: number): Promise<void>
  /** The path of the program that containers begin with, which waits until `complete` is done; null without one. */
  readonly entry: string | null
  /** Removes the host's rules. */
  remove(): Promise<void>
}

/** A container that runs in the network of a project. */
export interface RunningContainer {
  readonly id: string
  /** Of its first process, as the host counts them. */
  readonly pid: number
  /** The address of the network's bridge. */
  readonly gateway: string
}

export interface HostNetworkOptions {
  readonly tools: Pick<Tools, 'ip' | 'nft' | 'nsenter' | 'cp'>
  /** Its absolute path. */
  readonly dataDirectory: string
  /** The folder for the program that containers begin with, which the engine sees at the same path. */
  readonly programs: string
  readonly range: AddressRange
  readonly reach: Reach
}

/** Sets the rules of the host where this machine can have them, which is tried; else returns the reason why not. */
export async function tryHostNetwork(options: HostNetworkOptions): Promise<HostNetwork | string> {
  try {
    return await openHostNetwork(options)
  } catch (error) {
    return (error as Error).message
  }
}

/** Removes the rules of the host for the containers of a data directory. */
export const removeHostNetwork = (tools: Pick<Tools, 'nft'>, dataDirectory: string): Promise<void> =>
  removeHostTable(tools, bridgeNamesOf(dataDirectory))

async function openHostNetwork(options: HostNetworkOptions): Promise<HostNetwork> {
  const { tools, dataDirectory } = options
  const names = bridgeNamesOf(dataDirectory)
  // Containers do not build: they have no mirrors.
  const policy = await policyOf({ ...options, reach: { ...options.reach, mirrors: [] } })
  // A kernel without one of the expressions refuses the rules of every container.
  await runTool(tools.nft, ['-c', '-f', '-'], containerRules('192.0.2.1', policy))
  const published = new Set<number>()
  await setHostTable(tools, names, policy, 'bridges')
  const own = await readlink('/proc/self/ns/net')

  return {
    entry: await prepareEntry(options.programs),

    async prepare(bridge) {
      const isThere = (await publishedPorts(tools, names)) !== null
      if (!isThere) await setHostTable(tools, names, policy, 'bridges', { ports: published })
      await writeFile(`/proc/sys/net/ipv4/conf/${bridge}/route_localnet`, '1')
    },

    discard: async (bridge) => void (await runTool(tools.ip, ['link', 'delete', bridge]).catch(() => undefined)),

    async complete(container) {
      const network = await openNetwork(container)
      if (network === null) return
      const within = (program: string, args: string[], input = '', files: string[] = []) =>
        runTool(tools.nsenter, [`--net=${pathOf(network)}`, '--', program, ...args], input, files)
      try {
        if ((await readlink(pathOf(network))) === own) return
        await within(tools.nft, ['-f', '-'], containerRules(container.gateway, policy))
        // Connections may be led to the container's loopback, and from there to the host. The first program waits for it.
        await within(tools.cp, [inputPath(0), '/proc/sys/net/ipv4/conf/all/route_localnet'], '', ['1'])
      } finally {
        await network.close()
      }
    },

    async publish(port) {
      published.add(port)
      await publishPort(tools, names, port)
    },

    remove: () => removeHostTable(tools, names),
  }
}

/**
 * Opens the network of a container; null when it has ended. Its pid may be another process's by now, so the group of the process
 * tells whose it is. What is opened stays the container's, whatever becomes of the pid.
 */
export async function openNetwork({ id, pid }: Pick<RunningContainer, 'id' | 'pid'>): Promise<FileHandle | null> {
  const network = await open(`/proc/${pid}/ns/net`).catch(() => null)
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
  if (groups.includes(id)) return network
  await network?.close()
  return null
}

/** The path at which programs that this process starts find what it has opened. */
const pathOf = ({ fd }: FileHandle): string => `/proc/${process.pid}/fd/${fd}`

/** The path of the program in containers. */
export const entryInside = '/.fairlead-enter'

/**
 * Copies the program that waits for a container's network and then becomes its command (`scripts/enter/enter.c`) to a folder.
 * Returns its path; null on a machine that it was not made for.
 */
async function prepareEntry(folder: string): Promise<string | null> {
  const source = assetFile(`enter/${process.arch}`)
  if (!(await exists(source))) return null
  const hash = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
  // A file of its own for each version: containers hold theirs.
  const copyTo = join(folder, `container-entry-${hash.slice(0, 16)}`)
  // A server knows processes of its containers by this file, so it must be no link to one that another server has as well.
  await copyOnce({ source, copyTo, mayLink: false })
  // Packages do not keep the rights of files.
  await chmod(copyTo, 0o755)
  return copyTo
}
