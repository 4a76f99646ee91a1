import { join } from 'node:path'
import type { Exceeded } from '../../../platform/cgroups.ts'
import type { ProcessIdentity } from '../../../platform/processes.ts'
import type { ExceededLimit, LimitCode } from '../../limits.ts'
import type { Release } from '../../runtime.ts'
import type { LocalRelease } from '../release/layout.ts'
import type { HostCapabilities } from './capabilities.ts'
import { type GroupUsage, groupUsage } from './group-usage.ts'
import { exceededLimit, groupLimits, type Kind, prlimitArguments } from './limits.ts'
import { createMemoryWatch, type MemoryWatch } from './memory-watch.ts'
import { sandboxArguments } from './sandbox.ts'

/** Says how a command is started. */
export interface Entry {
  /** Programs that become the next one, each with its arguments. */
  readonly prefix: readonly string[]
  /** Files that the process writes its pid to before anything else; none on a machine without control groups. */
  readonly groups: readonly string[]
}

/** Enforces the limits of builds and apps, and separates them from everything else on the machine. */
export interface Confinement {
  /** Tells what builds and apps can do here that they should not; null when they are isolated. */
  readonly warning: string | null
  /** Called right before something is started, ended or removed. Throws when another server does that by now. */
  readonly fence: () => void
  /** Prepares the start of a build or an app of the release; ends the processes of an earlier one of this kind. */
  open(release: LocalRelease, kind: Kind): Promise<Entry>
  /** Prepares the start of a further command beside the running app. */
  join(release: LocalRelease): Entry
  /** Enforces the memory limit on a started process until the returned function is called. */
  watch(release: Pick<Release, 'id' | 'limits'>, part: Part, leader: ProcessIdentity): () => void
  /**
   * Returns the limit that ended the last build or app of the release, or `null`.
   *
   * @param planBytes the memory that the plan of the project allows
   */
  exceeded(releaseId: string, kind: Kind, planBytes: number): Promise<ExceededLimit | null>
  /** Returns what the control group of the app counts. */
  usageOf(releaseId: string): Promise<GroupUsage>
  processesOf(releaseId: string, kind?: Kind): Promise<number[]>
  kill(releaseId: string, kind?: Kind): Promise<void>
  remove(releaseId: string): Promise<void>
  /** Lists the releases that have processes. */
  occupied(): Promise<string[]>
}

/** `command` is a one-off command beside the app. */
export type Part = Kind | 'command'

const kinds: readonly Kind[] = ['build', 'app']
const codes: Readonly<Record<Exceeded, LimitCode>> = { memory: 'out_of_memory', processes: 'too_many_processes' }
const groupOf = (releaseId: string, kind: Kind): string => `${releaseId}.${kind}`

export function createConfinement(host: HostCapabilities, fence: () => void): Confinement {
  const { cgroups } = host
  const memory = createMemoryWatch()
  const processesOf: Confinement['processesOf'] = async (releaseId, only) =>
    (await Promise.all(selected(only).map((kind) => cgroups?.processesOf(groupOf(releaseId, kind)) ?? []))).flat()

  return {
    warning: warningOf(host, process.getuid?.() === 0),
    fence,

    async open(release, kind) {
      const name = groupOf(release.id, kind)
      memory.forget(name)
      fence()
      const groups = (await cgroups?.make(name, groupLimits(release.limits, kind))) ?? []
      return { groups, prefix: prefixOf(host, release, kind) }
    },

    join(release) {
      const folders = cgroups === null ? [] : [...new Set(Object.values(host.groupFolders))]
      const groups = folders.map((folder) => join(folder, groupOf(release.id, 'app'), 'cgroup.procs'))
      return { groups, prefix: prefixOf(host, release, 'app') }
    },

    watch: (release, part, leader) => watchMemory(memory, host, release, part, leader),

    async exceeded(releaseId, kind, planBytes) {
      const name = groupOf(releaseId, kind)
      if (memory.exceeded(name)) return exceededLimit('out_of_memory', kind, planBytes)
      const exceeded = (await cgroups?.exceeded(name)) ?? null
      return exceeded === null ? null : exceededLimit(codes[exceeded], kind, planBytes)
    },

    usageOf: async (releaseId) =>
      cgroups === null
        ? { memoryBytes: null, cpuSeconds: null }
        : groupUsage(host.groupFolders, cgroups.version, groupOf(releaseId, 'app')),

    processesOf,

    async kill(releaseId, only) {
      for (const kind of selected(only)) {
        fence()
        await cgroups?.kill(groupOf(releaseId, kind))
      }
    },

    async remove(releaseId) {
      for (const kind of kinds) {
        memory.forget(groupOf(releaseId, kind))
        fence()
        await cgroups?.remove(groupOf(releaseId, kind))
      }
    },

    async occupied() {
      const found: string[] = []
      for (const name of (await cgroups?.names()) ?? []) {
        if (((await cgroups?.processesOf(name)) ?? []).length > 0) found.push(name.replace(/\.(build|app)$/, ''))
      }
      return found
    },
  }
}

const selected = (only: Kind | undefined): readonly Kind[] => (only === undefined ? kinds : [only])

const limitsMemory = ({ cgroups }: Pick<HostCapabilities, 'cgroups'>): boolean =>
  cgroups?.controllers.has('memory') === true

function prefixOf(host: HostCapabilities, release: LocalRelease, kind: Kind): string[] {
  const { prlimit, sandbox, cgroups } = host
  const options = {
    groupsMemory: limitsMemory(host),
    groupsProcesses: cgroups?.controllers.has('pids') === true,
    ownUser: release.user !== null,
  }
  return [
    ...(prlimit === null ? [] : [prlimit, ...prlimitArguments(groupLimits(release.limits, kind), options), '--']),
    ...(sandbox === null
      ? []
      : [sandbox.program, ...sandboxArguments(release.paths, kind, { ...host, isModern: sandbox.isModern })]),
  ]
}

function watchMemory(
  memory: MemoryWatch,
  host: HostCapabilities,
  release: Pick<Release, 'id' | 'limits'>,
  part: Part,
  leader: ProcessIdentity,
): () => void {
  if (limitsMemory(host)) return () => undefined
  const kind = part === 'command' ? 'app' : part
  const { memoryBytes } = groupLimits(release.limits, kind)
  const group = groupOf(release.id, kind)
  // The group of the app lists a one-off command with the app; without groups the command is measured by itself.
  const name = part === 'command' ? `${group}.${leader.pid}` : group
  const listed = () => (part === 'command' ? [] : (host.cgroups?.processesOf(group) ?? []))
  const stop = memory.watch(name, { leader, memoryBytes, listed })
  return () => {
    stop()
    if (part === 'command') memory.forget(name)
  }
}

/** Returns the isolation that is missing, in words for the operator and for everybody who deploys. */
export function warningOf({ sandbox }: Pick<HostCapabilities, 'sandbox'>, isRoot: boolean): string | null {
  if (isRoot || sandbox !== null) return null
  return 'builds and apps run as the user of the server and can read its files: deploy only code that you trust'
}
