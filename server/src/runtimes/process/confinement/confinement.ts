import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Cgroups, counterIn, type Exceeded, type GroupFolders } from '../../../platform/cgroups.ts'
import { volumeFiles } from '../../../platform/disk/volumes.ts'
import { hardDescriptorLimit, type ProcessIdentity } from '../../../platform/processes.ts'
import type { SandboxView } from '../../../platform/sandbox/arguments.ts'
import type { Sandbox } from '../../../platform/sandbox/find.ts'
import { type ExceededLimit, type LimitCode, outOfMemoryScores } from '../../limits.ts'
import type { Release } from '../../runtime.ts'
import { releaseOfUnit } from '../handle.ts'
import type { Forward, Network } from '../network/network.ts'
import type { LocalRelease } from '../release-folders.ts'
import type { HostCapabilities } from './capabilities.ts'
import { unitOfGroup } from './groups.ts'
import { exceededLimit, groupLimits, type Kind, kinds, prlimitArguments } from './limits.ts'
import { createMemoryWatch, type MemoryWatch } from './memory-watch.ts'

/** The way to start a command: it enters a network, joins groups and a sandbox, and drops the rights of the server. */
export interface Entry {
  /** A command prefix that enters a network. It needs the server's rights. */
  readonly network: readonly string[]
  /** Resolves when the network is ready for the command. Rejects when the network cannot be made. */
  readonly networkReady: Promise<void>
  readonly prefix: readonly string[]
  readonly sandbox: { readonly sandbox: Sandbox; readonly view: SandboxView } | null
  /** Files to which the process writes its pid first; empty on a machine without control groups. */
  readonly groups: readonly string[]
  /** The memory limit of the command together with the processes beside it. */
  readonly memoryBytes: number
  readonly outOfMemoryScore: number
  /** The release's address for this machine; `null` for loopback. */
  readonly address: string | null
  /** Ports on the loopback of this machine that lead to the release; `null` without such ports. */
  readonly forward: Forward | null
}

/**
 * Limits builds and apps, and separates them from everything else. When a release has several instances, `releaseId`
 * may also name one of them.
 */
export interface Confinement {
  /** Tells what builds and apps can do here but should not; null when they are isolated. */
  readonly warning: string | null
  /** True where commands see other folders than the machine has, and links between folders. */
  readonly showsFolders: boolean
  /** Called before something is started, ended or removed. Throws when another server has taken over. */
  readonly fence: () => void
  /** Prepares the start of a build or an app. Ends processes of an earlier start of this kind. */
  open(release: LocalRelease, kind: Kind): Promise<Entry>
  /** Begins the slowest part of the next `open` of this kind. */
  prepare(releaseId: string, kind: Kind): void
  /** Prepares the start of another command beside the running app. `leader` is a process of the app. */
  join(release: LocalRelease, leader: ProcessIdentity): Entry
  redirect(holder: ProcessIdentity, ports: { readonly from: number; readonly to: number }): Promise<void>
  /** Enforces the memory limit of a started process. Returns a function that ends the watch. */
  watch(release: Pick<Release, 'id' | 'limits'>, part: Part, leader: ProcessIdentity): () => void
  /**
   * Returns the limit that ended the last build or app of the release, or `null`.
   *
   * @param planBytes the memory limit of an app in the plan of the project
   */
  exceeded(releaseId: string, kind: Kind, planBytes: number): Promise<ExceededLimit | null>
  usageOf(releaseId: string): Promise<GroupUsage>
  /** Returns the name of the release and the names of its instances with control groups. */
  unitsOf(releaseId: string): Promise<string[]>
  processesOf(releaseId: string, kind?: Kind): Promise<number[]>
  kill(releaseId: string, kind?: Kind): Promise<void>
  remove(releaseId: string): Promise<void>
  occupied(): Promise<string[]>
}

/** `command` is a one-off command beside the app. */
export type Part = Kind | 'command'

const codes: Readonly<Record<Exceeded, LimitCode>> = { memory: 'out_of_memory', processes: 'too_many_processes' }

export interface ConfinementOptions {
  readonly buildMemoryBytes: number
  readonly fence: () => void
}

export function createConfinement(host: HostCapabilities, options: ConfinementOptions): Confinement {
  const { buildMemoryBytes, fence } = options
  const { networks } = host
  const memory = createMemoryWatch()
  const limitsOf = (release: Pick<Release, 'limits'>, kind: Kind) => groupLimits(release.limits, kind, buildMemoryBytes)

  return {
    warning: warningOf(host, process.getuid?.() === 0),
    showsFolders: host.sandbox !== null,
    fence,

    async open(release, kind) {
      const name = groupOf(release.id, kind)
      memory.forget(name)
      fence()
      const groups = (await groupsFor(host, kind)?.make(name, limitsOf(release, kind))) ?? []
      const opened = (await networks?.open({ id: release.id, kind })) ?? sharedNetwork
      const project = { projectId: release.projectId, name: release.internalName }
      const network = kind === 'app' ? ((await networks?.introduce(opened, project)) ?? opened) : opened
      return entryOf(host, release, { kind, groups, network, memoryBytes: limitsOf(release, kind).memoryBytes })
    },

    prepare(id, kind) {
      fence()
      networks?.prepare({ id, kind })
    },

    join(release, leader) {
      const groups = filesToJoin(host, release.id)
      const network = { ...sharedNetwork, enter: networks?.enterThatOf(leader.pid) ?? [] }
      const { memoryBytes } = limitsOf(release, 'app')
      const entry = entryOf(host, release, { kind: 'app', groups, network, memoryBytes })
      const { sandbox } = entry
      // Nobody reads the command's output after the server's end.
      return sandbox === null
        ? entry
        : { ...entry, sandbox: { ...sandbox, view: { ...sandbox.view, endsWithServer: true } } }
    },

    async redirect(holder, ports) {
      fence()
      await networks?.redirect(holder, ports)
    },

    watch: (release, part, leader) =>
      watchMemory(memory, host, {
        id: release.id,
        part,
        leader,
        memoryOf: (kind) => limitsOf(release, kind).memoryBytes,
      }),

    exceeded: (releaseId, kind, planBytes) =>
      exceededBy(
        memory,
        groupsFor(host, kind),
        groupOf(releaseId, kind),
        kind === 'build' ? buildMemoryBytes : planBytes,
      ),

    usageOf: (releaseId) =>
      groupUsage(host.cgroups?.folders ?? {}, host.cgroups?.version ?? 2, groupOf(releaseId, 'app')),

    async unitsOf(releaseId) {
      return [...new Set([releaseId, ...(await unitsIn(host)).filter((unit) => releaseOfUnit(unit) === releaseId)])]
    },

    processesOf: (releaseId, only) => processesIn(host, releaseId, only),

    async kill(releaseId, only) {
      for (const kind of only === undefined ? kinds : [only]) {
        fence()
        await groupsFor(host, kind)?.kill(groupOf(releaseId, kind))
        await networks?.remove({ id: releaseId, kind })
      }
    },

    async remove(releaseId) {
      for (const kind of kinds) {
        memory.forget(groupOf(releaseId, kind))
        fence()
        await groupsFor(host, kind)?.remove(groupOf(releaseId, kind))
      }
    },

    occupied: () => releasesIn(host),
  }
}

/** Returns the limit that ended the processes of a group. `allowed` is in bytes. */
async function exceededBy(
  memory: Pick<MemoryWatch, 'exceeded'>,
  cgroups: Cgroups | null,
  group: string,
  allowed: number,
): Promise<ExceededLimit | null> {
  const seen = memory.exceeded(group)
  if (seen !== null) return exceededLimit('out_of_memory', { allowed, used: seen })
  const exceeded = (await cgroups?.exceeded(group)) ?? null
  if (cgroups === null || exceeded === null) return null
  return exceededLimit(codes[exceeded], { allowed, used: await peakMemory(cgroups.folders, cgroups.version, group) })
}

const sharedNetwork: Network = { address: null, forward: null, enter: [], ready: Promise.resolve() }

function entryOf(
  host: HostCapabilities,
  release: LocalRelease,
  joined: Pick<Entry, 'groups' | 'memoryBytes'> & { readonly kind: Kind; readonly network: Network },
): Entry {
  const { kind, groups, memoryBytes } = joined
  const { enter, address, forward, ready } = joined.network
  // The start awaits `ready` and reports the failure.
  ready.catch(() => undefined)
  const outOfMemoryScore = outOfMemoryScores[kind]
  const [prefix, sandbox] = [prefixOf(host, release), sandboxOf(host, release, kind)]
  return {
    groups,
    network: enter,
    networkReady: ready,
    address,
    forward,
    prefix,
    sandbox,
    memoryBytes,
    outOfMemoryScore,
  }
}

function prefixOf({ prlimit, cgroups }: HostCapabilities, release: LocalRelease): string[] {
  const options = {
    groupsProcesses: cgroups?.controllers.has('pids') === true,
    ownUser: release.user !== null,
    descriptors: hardDescriptorLimit(),
  }
  return prlimit === null ? [] : [prlimit, ...prlimitArguments(options), '--']
}

function sandboxOf(host: HostCapabilities, release: LocalRelease, kind: Kind): Entry['sandbox'] {
  const { sandbox } = host
  return sandbox === null ? null : { sandbox, view: viewOf(release, kind, groupOf(release.id, kind), host) }
}

function watchMemory(
  memory: MemoryWatch,
  host: HostCapabilities,
  target: {
    readonly id: string
    readonly part: Part
    readonly leader: ProcessIdentity
    readonly memoryOf: (kind: Kind) => number
  },
): () => void {
  const { id, part, leader } = target
  const kind = part === 'command' ? 'app' : part
  const groups = groupsFor(host, kind)
  if (groups?.controllers.has('memory') === true) return () => undefined
  const [group, memoryBytes] = [groupOf(id, kind), target.memoryOf(kind)]
  // The app's group lists a one-off command, too. Without groups, it is measured separately.
  const name = part === 'command' ? `${group}.${leader.pid}` : group
  const listed = () => (part === 'command' ? [] : (groups?.processesOf(group) ?? []))
  const stop = memory.watch(name, { leader, memoryBytes, listed })
  return () => {
    stop()
    if (part === 'command') memory.forget(name)
  }
}

export function warningOf({ sandbox }: Pick<HostCapabilities, 'sandbox'>, isRoot: boolean): string | null {
  if (sandbox !== null) return null
  return isRoot
    ? 'builds and apps see the processes of this machine and the files that every user can read: install bubblewrap 0.8 or newer'
    : 'builds and apps run as the user of the server and can read its files: deploy only code that you trust'
}

type Host = Pick<HostCapabilities, 'cgroups' | 'builds'>

const groupOf = (unit: string, kind: Kind): string => `${unit}.${kind}`

const groupsFor = ({ cgroups, builds }: Host, kind: Kind): Cgroups | null => (kind === 'build' ? builds : cgroups)

function filesToJoin({ cgroups }: Host, unit: string): string[] {
  const folders = new Set(Object.values(cgroups?.folders ?? {}))
  return [...folders].map((folder) => join(folder, groupOf(unit, 'app'), 'cgroup.procs'))
}

async function processesIn(host: Host, unit: string, only: Kind | undefined): Promise<number[]> {
  const listed = (only === undefined ? kinds : [only]).map(
    (kind) => groupsFor(host, kind)?.processesOf(groupOf(unit, kind)) ?? [],
  )
  return (await Promise.all(listed)).flat()
}

async function unitsIn(host: Host): Promise<string[]> {
  return (await allGroups(host)).map(({ name }) => unitOfGroup(name))
}

async function releasesIn(host: Host): Promise<string[]> {
  const found: string[] = []
  for (const { groups, name } of await allGroups(host)) {
    if ((await groups.processesOf(name)).length > 0) found.push(releaseOfUnit(unitOfGroup(name)))
  }
  return found
}

async function allGroups({ cgroups, builds }: Host): Promise<{ readonly groups: Cgroups; readonly name: string }[]> {
  const all = [cgroups, builds].filter((each) => each !== null)
  return (await Promise.all(all.map(async (groups) => (await groups.names()).map((name) => ({ groups, name }))))).flat()
}

/** The place where programs look for the limits of their control group (cgroups(7)). */
const groupsFolder = '/sys/fs/cgroup'

/**
 * The folder with the file that names the other apps of the project. A mounted file would keep its old content after a
 * replacement, so sandboxes mount the folder.
 */
const hostsFolder = '/.project'

/**
 * Returns the files that a command of a release sees: its own folders, and its programs. It sees no other file of the
 * server. Commands can read the limits of their control group, because Java, Go and Node adapt to the limits.
 *
 * @param group the name of the control group
 */
export function viewOf(
  release: Pick<LocalRelease, 'paths' | 'user' | 'origins' | 'volumes' | 'projectId'>,
  kind: Kind,
  group: string,
  host: Pick<HostCapabilities, 'cgroups' | 'builds' | 'programs' | 'dataDirectory' | 'networks'>,
): SandboxView {
  const { paths, user, origins, volumes = {} } = release
  const { programs, dataDirectory } = host
  const cgroups = kind === 'build' ? host.builds : host.cgroups
  const own = [paths.directory, paths.home, paths.temporary]
  const groups = Object.entries(cgroups?.folders ?? {}).map(([controller, folder]) => ({
    from: join(folder, group),
    at: cgroups?.version === 2 ? groupsFolder : join(groupsFolder, controller),
  }))
  const accounts = [
    { from: paths.passwd, at: '/etc/passwd' },
    { from: paths.group, at: '/etc/group' },
  ]
  const hosts = kind === 'app' ? (host.networks?.hostsOf(release.projectId) ?? null) : null
  const placed = Object.entries(kind === 'build' ? {} : volumes).map(([name, at]) => ({
    from: volumeFiles(paths.volumes, name),
    at,
  }))
  return {
    readable: programs,
    writable: [...own, ...(kind === 'build' ? [paths.cache] : []), ...placed.map(({ from }) => from)],
    placed,
    hidden: [dataDirectory],
    mounted: [
      ...(cgroups?.version === 2 ? groups.slice(0, 1) : groups),
      ...(user === null ? [] : accounts),
      ...(hosts === null ? [] : [{ from: hosts, at: hostsFolder }]),
    ],
    links: [
      // Build output may contain the path of its folder.
      ...origins.map((at) => ({ at, to: paths.source })),
      ...(hosts === null ? [] : [{ at: '/etc/hosts', to: join(hostsFolder, 'hosts') }]),
    ],
    directory: paths.source,
  }
}

/** Counters of a control group; `null` where the kernel does not count. */
interface GroupUsage {
  readonly memoryBytes: number | null
  /** Seconds since the group was made. */
  readonly cpuSeconds: number | null
}

/** Reads the memory and CPU use of a group (the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst). */
export async function groupUsage(folders: GroupFolders, version: 1 | 2, name: string): Promise<GroupUsage> {
  const { memory, cpu } = folders
  return {
    memoryBytes: memory === undefined ? null : await memoryBytes(join(memory, name), version),
    cpuSeconds: cpu === undefined ? null : await cpuSeconds(join(cpu, name), version),
  }
}

/** Returns the peak memory of a group, cached files included; `null` where the kernel does not report it. */
export async function peakMemory({ memory }: GroupFolders, version: 1 | 2, name: string): Promise<number | null> {
  const file = version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak'
  const peak = memory === undefined ? null : await read(join(memory, name), file)
  return peak === null ? null : Number(peak)
}

/** Returns the memory of a group without cached files, which the kernel may drop at any time. */
async function memoryBytes(folder: string, version: 1 | 2): Promise<number | null> {
  const used = await read(folder, version === 1 ? 'memory.usage_in_bytes' : 'memory.current')
  const counters = await read(folder, 'memory.stat')
  if (used === null || counters === null) return null
  return Math.max(0, Number(used) - counterIn(counters, version === 1 ? 'total_inactive_file' : 'inactive_file'))
}

async function cpuSeconds(folder: string, version: 1 | 2): Promise<number | null> {
  if (version === 2) {
    const counters = await read(folder, 'cpu.stat')
    return counters === null ? null : counterIn(counters, 'usage_usec') / 1e6
  }
  // A separate controller counts CPU time. Most systems mount it with the CPU controller.
  const nanoseconds = await read(folder, 'cpuacct.usage')
  return nanoseconds === null ? null : Number(nanoseconds) / 1e9
}

const read = (folder: string, file: string): Promise<string | null> =>
  readFile(join(folder, file), 'utf8').catch(() => null)
