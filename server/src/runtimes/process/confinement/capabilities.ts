import { join } from 'node:path'
import { type Cgroups, openCgroups, openYielding, type Yielding } from '../../../platform/cgroups.ts'
import type { Config } from '../../../platform/config.ts'
import { SYSTEM_FOLDERS } from '../../../platform/disk/folders.ts'
import type { Logger } from '../../../platform/logger.ts'
import { findProgram } from '../../../platform/programs.ts'
import { createFileCopies } from '../../../platform/sandbox/arguments.ts'
import { findSandbox, type Sandbox, trialArguments } from '../../../platform/sandbox/find.ts'
import type { PortRange } from '../../network/reach.ts'
import type { Tools } from '../../network/tools.ts'
import {
  type Networks,
  type NetworksOptions,
  type PreparableNetworks,
  preparableNetworks,
  tryNetworks,
} from '../network/networks.ts'
import { type PastaNetworksOptions, type PastaTools, tryPastaNetworks } from '../network/pasta-networks.ts'
import { buildsFolder, groupName, placeOfBuilds, readHierarchy, yieldingName } from './groups.ts'

/** The confinement features of this machine; `null` for missing features. */
export interface HostCapabilities {
  /** The groups of apps. */
  readonly cgroups: Cgroups | null
  readonly builds: Cgroups | null
  /** The folder of groups that yield to apps and to the server. It contains the groups of builds. */
  readonly yielding: Yielding | null
  readonly prlimit: string | null
  readonly sandbox: Sandbox | null
  readonly networks: PreparableNetworks | null
  /** Folders that sandboxed programs may read in addition to the system folders. */
  readonly programs: readonly string[]
  /** The data directory. Sandboxed programs see only their own folders of it. */
  readonly dataDirectory: string
}

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
  /** Ports on the loopback of this machine. They lead to apps when the server is not root. */
  readonly ports: PortRange
}

/** Finds the confinement features of this machine, and makes the control group of the server. */
export async function detectCapabilities(options: {
  readonly cgroups: Config['cgroups']
  readonly path: string
  readonly directory: string
  readonly isRoot: boolean
  readonly programs: readonly string[]
  /** `null` when apps and builds share the machine's network. */
  readonly network: NetworkSettings | null
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
): Promise<PreparableNetworks | null> {
  const options = { ...settings, dataDirectory: directory }
  const networks = isRoot ? await rootNetworks(options) : await pastaNetworks(options, sandbox)
  if (typeof networks !== 'string') return networks === null ? null : preparableNetworks(networks)
  logger.warn({ reason: networks }, 'apps share the network of this machine, which cannot make separate networks')
  return null
}

async function rootNetworks(options: Omit<NetworksOptions, 'tools'>): Promise<Networks | string | null> {
  const tools = await findNetworkTools()
  return tools === null ? null : tryNetworks({ ...options, tools })
}

/** Returns `null` where a program is missing. Without a sandbox, apps could enter the networks of other apps. */
async function pastaNetworks(
  options: Omit<PastaNetworksOptions, 'tools'>,
  sandbox: Sandbox | null,
): Promise<Networks | string | null> {
  const tools = await findPastaTools()
  if (tools === null || sandbox?.isModern !== true) return null
  return tryPastaNetworks({ ...options, tools }, [sandbox.program, ...trialArguments(true, false)])
}

// Ordinary users' PATH often lacks the folders of administration programs.
const programFolders = [...SYSTEM_FOLDERS, '/usr/sbin', '/sbin'].join(':')
const find = (name: string) => findProgram(name, programFolders)

export async function findNetworkTools(): Promise<Tools | null> {
  const [ip, nft, nsenter, cp] = await Promise.all(['ip', 'nft', 'nsenter', 'cp'].map(find))
  return ip && nft && nsenter && cp ? { ip, nft, nsenter, cp } : null
}

export async function findPastaTools(): Promise<PastaTools | null> {
  const names = ['pasta', 'nft', 'nsenter', 'setpriv', 'sleep', 'sh']
  const [pasta, nft, nsenter, setpriv, sleep, sh] = await Promise.all(names.map(find))
  return pasta && nft && nsenter && setpriv && sleep && sh ? { pasta, nft, nsenter, setpriv, sleep, sh } : null
}

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
