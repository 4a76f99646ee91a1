import { join } from 'node:path'
import { type Cgroups, openCgroups, openYielding, type Yielding } from '../../../platform/cgroups.ts'
import type { Config } from '../../../platform/config.ts'
import { SYSTEM_FOLDERS } from '../../../platform/disk/folders.ts'
import type { Logger } from '../../../platform/logger.ts'
import { findProgram } from '../../../platform/machine/programs.ts'
import { createFileCopies } from '../../../platform/sandbox/arguments.ts'
import { findSandbox, type Sandbox, trialArguments } from '../../../platform/sandbox/find.ts'
import type { PortRange } from '../../network/reach.ts'
import type { Tools } from '../../network/tools.ts'
import { type Networks, type NetworksAhead, type NetworksOptions, openAhead, tryNetworks } from '../network/networks.ts'
import { type PastaNetworksOptions, type PastaTools, tryPastaNetworks } from '../network/pasta-networks.ts'
import { buildsFolder, groupName, placeOfBuilds, readHierarchy, yieldingName } from './groups.ts'

/** The features of this machine that confine builds and apps; `null` for those that it lacks. */
export interface HostCapabilities {
  /** Of apps, and of builds that an older version has started. */
  readonly cgroups: Cgroups | null
  /** Of builds. */
  readonly builds: Cgroups | null
  /** The place for groups that give way to apps and to the server, in which the groups of builds are. */
  readonly yielding: Yielding | null
  /** util-linux's program. */
  readonly prlimit: string | null
  /** Bubblewrap; `null` where it cannot be used. */
  readonly sandbox: Sandbox | null
  /** Networks of their own for apps and builds. */
  readonly networks: NetworksAhead | null
  /** Folders that sandboxed programs may read besides the system's. */
  readonly programs: readonly string[]
  /** Hidden from sandboxed programs, except for their own folders. */
  readonly dataDirectory: string
}

/** A machine that can confine nothing. */
export const noCapabilities: HostCapabilities = {
  cgroups: null,
  builds: null,
  yielding: null,
  prlimit: null,
  sandbox: null,
  networks: null,
  programs: [],
  dataDirectory: '/nowhere',
}

export interface NetworkSettings extends Pick<NetworksOptions, 'range' | 'reach'> {
  /** The ports of this machine's loopback that lead to apps of a server that is not root. */
  readonly ports: PortRange
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
  /** `null` to let apps and builds share the machine's network. */
  readonly network: NetworkSettings | null
  /** True while builds are to leave a core to everything else. */
  readonly leavesCore: () => boolean
  readonly logger: Pick<Logger, 'warn' | 'error'>
}): Promise<HostCapabilities> {
  const { directory } = options
  const cgroups = await openCgroups(await readHierarchy(options.cgroups), groupName(directory))
  const yielding = await openYielding(await placeOfBuilds(options.cgroups), yieldingName(directory), options)
  const copies = createFileCopies(join(directory, 'runtime', 'etc'))
  const sandbox = await findSandbox(options.path, options.isRoot, copies)
  return {
    cgroups,
    builds: await openCgroups(yielding?.hierarchy ?? null, buildsFolder, yielding),
    yielding,
    prlimit: await findProgram('prlimit', options.path),
    sandbox,
    networks: options.network === null ? null : await networksOf(options, options.network, sandbox),
    programs: options.programs,
    dataDirectory: directory,
  }
}

/** Deletes the control groups in which nothing runs. */
export async function closeGroups({
  cgroups,
  builds,
  yielding,
}: Pick<HostCapabilities, 'cgroups' | 'builds' | 'yielding'>): Promise<void> {
  for (const groups of [cgroups, builds, yielding]) await groups?.close()
}

async function networksOf(
  { directory, isRoot, logger }: Pick<Parameters<typeof detectCapabilities>[0], 'directory' | 'isRoot' | 'logger'>,
  settings: NetworkSettings,
  sandbox: Sandbox | null,
): Promise<NetworksAhead | null> {
  const options = { ...settings, dataDirectory: directory }
  const networks = isRoot ? await rootNetworks(options) : await pastaNetworks(options, sandbox)
  if (typeof networks !== 'string') return networks === null ? null : openAhead(networks)
  logger.warn({ reason: networks }, 'apps share the network of this machine: it cannot make others')
  return null
}

/** Returns `null` where a program is missing. */
async function rootNetworks(options: Omit<NetworksOptions, 'tools'>): Promise<Networks | string | null> {
  const tools = await findNetworkTools()
  return tools === null ? null : tryNetworks({ ...options, tools })
}

/** Returns `null` where a program is missing. Without a sandbox, apps could enter the networks of others. */
async function pastaNetworks(
  options: Omit<PastaNetworksOptions, 'tools'>,
  sandbox: Sandbox | null,
): Promise<Networks | string | null> {
  const tools = await findPastaTools()
  if (tools === null || sandbox?.isModern !== true) return null
  return tryPastaNetworks({ ...options, tools }, [sandbox.program, ...trialArguments(true, false)])
}

// Administrators' programs are not on everybody's PATH.
const programFolders = [...SYSTEM_FOLDERS, '/usr/sbin', '/sbin'].join(':')
const find = (name: string) => findProgram(name, programFolders)

/** Finds the programs that make networks for a server that is root. Returns `null` when one is missing. */
export async function findNetworkTools(): Promise<Tools | null> {
  const [ip, nft, nsenter, cp] = await Promise.all(['ip', 'nft', 'nsenter', 'cp'].map(find))
  return ip && nft && nsenter && cp ? { ip, nft, nsenter, cp } : null
}

/** Finds the programs that make networks for a server that is not root. Returns `null` when one is missing. */
export async function findPastaTools(): Promise<PastaTools | null> {
  const names = ['pasta', 'nft', 'nsenter', 'setpriv', 'sleep', 'sh']
  const [pasta, nft, nsenter, setpriv, sleep, sh] = await Promise.all(names.map(find))
  return pasta && nft && nsenter && setpriv && sleep && sh ? { pasta, nft, nsenter, setpriv, sleep, sh } : null
}

/** Returns the capabilities in words for the server's log. */
export function describeCapabilities({
  cgroups,
  prlimit,
  sandbox,
  networks,
}: Pick<HostCapabilities, 'cgroups' | 'prlimit' | 'sandbox' | 'networks'>): Record<string, string | boolean> {
  return {
    cgroups: cgroups === null ? 'none' : `version ${cgroups.version}: ${[...cgroups.controllers].join(', ')}`,
    prlimit: prlimit !== null,
    bubblewrap: sandbox !== null,
    networks: networks !== null,
  }
}
