import { type FileHandle, open, readFile, readlink, writeFile } from 'node:fs/promises'
import type { AddressRange } from '../../../platform/config.ts'
import { copyEnter } from '../../enter.ts'
import { bridgeNamesOf } from '../../network/addresses.ts'
import { policyOf, publishedPorts, publishPort, removeHostTable, setHostTable } from '../../network/host-table.ts'
import type { Reach } from '../../network/reach.ts'
import { inputPath, runTool, type Tools } from '../../network/tools.ts'
import { containerRules } from './inside-rules.ts'

/** The part of container networks that this machine adds to the engine: rules on the host and inside each network. */
export interface HostNetwork {
  /**
   * Connects a bridge to the services on the host's loopback, and restores the host's rules if another program has
   * removed them.
   */
  prepare(bridge: string): Promise<void>
  /** Removes a bridge of this server that the engine left behind after a failed creation of a network. */
  discard(bridge: string): Promise<void>
  /** Sets the rules inside a container's network. Does nothing for an ended container. */
  complete(container: RunningContainer): Promise<void>
  /** Lets containers reach the port of an app that the gateway has opened on this machine. */
  publish(port: number): Promise<void>
  /** The first program in containers waits for `complete`; null without such a program. */
  readonly entry: string | null
  remove(): Promise<void>
}

export interface RunningContainer {
  readonly id: string
  /** The pid of the first process on the host. */
  readonly pid: number
  readonly gateway: string
}

export interface HostNetworkOptions {
  readonly tools: Pick<Tools, 'ip' | 'nft' | 'nsenter' | 'cp'>
  readonly dataDirectory: string
  /** The folder for the first program in containers. The engine sees it at the same path. */
  readonly programs: string
  readonly range: AddressRange
  readonly reach: Reach
}

/** Tries to set the rules of the host. Returns the network, or the reason why this machine cannot have the rules. */
export async function tryHostNetwork(options: HostNetworkOptions): Promise<HostNetwork | string> {
  try {
    return await openHostNetwork(options)
  } catch (error) {
    return (error as Error).message
  }
}

export const removeHostNetwork = (tools: Pick<Tools, 'nft'>, dataDirectory: string): Promise<void> =>
  removeHostTable(tools, bridgeNamesOf(dataDirectory))

async function openHostNetwork(options: HostNetworkOptions): Promise<HostNetwork> {
  const { tools, dataDirectory } = options
  const names = bridgeNamesOf(dataDirectory)
  // Containers run no builds, so they have no mirrors.
  const policy = await policyOf({ ...options, reach: { ...options.reach, mirrors: [] } })
  // A kernel without one of the expressions would refuse the rules of every container.
  await runTool(tools.nft, ['-c', '-f', '-'], containerRules('192.0.2.1', policy))
  const published = new Set<number>()
  await setHostTable(tools, names, policy, 'bridges')
  const own = await readlink('/proc/self/ns/net')

  return {
    entry: await copyEnter(options.programs, 'container-entry'),

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
        // The rules redirect connections to the container's loopback, and from there to the host. The first program
        // waits for this setting.
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
 * Opens the network of a container; null after its end. The pid may belong to another process by now, so the group of
 * the process proves its container. The open network remains correct, even when the pid is reused.
 */
export async function openNetwork({ id, pid }: Pick<RunningContainer, 'id' | 'pid'>): Promise<FileHandle | null> {
  const network = await open(`/proc/${pid}/ns/net`).catch(() => null)
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
  if (groups.includes(id)) return network
  await network?.close()
  return null
}

const pathOf = ({ fd }: FileHandle): string => `/proc/${process.pid}/fd/${fd}`

/** The path of the first program inside containers. */
export const entryInside = '/.fairlead-enter'
