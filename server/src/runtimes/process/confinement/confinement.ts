import type { Cgroups, Exceeded } from '../../platform/cgroups.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import type { Release } from '../runtime.ts'
import { sourceOf } from './environment.ts'
import { groupLimits, type Kind, type LimitCode, prlimitArguments } from './limits.ts'
import { createMemoryWatch } from './memory-watch.ts'
import { type Sandbox, sandboxArguments } from './sandbox.ts'

/** What this machine offers to hold builds and apps with; `null` for what is not there. */
export interface Means {
  readonly cgroups: Cgroups | null
  /** util-linux's program. */
  readonly prlimit: string | null
  /** Bubblewrap; only where the server is not root, as users of their own divide apps where it is. */
  readonly sandbox: Sandbox | null
  /** Folders that sandboxed programs read besides the system's. */
  readonly programs: readonly string[]
  /** Hidden from sandboxed programs, but for what is theirs. */
  readonly dataDirectory: string
}

/** How a command is started. */
export interface Entry {
  /** Programs that become the next one, each with its arguments. */
  readonly prefix: readonly string[]
  /** Files that the process writes its pid to before anything else; none without groups. */
  readonly groups: readonly string[]
}

export interface Confinement {
  /** What builds and apps can do here that they should not, for the log. */
  readonly warning: string | null
  /** Makes room for a build or an app of the release; what an earlier one of this kind left is ended. */
  open(release: Release, kind: Kind): Promise<Entry>
  /** Begins to look after a process started with an entry, by this server or an earlier one; gives how to leave off. */
  watch(release: Pick<Release, 'id' | 'limits'>, kind: Kind, leader: ProcessIdentity): () => void
  /** The limit that the last build or app of the release ran into. */
  exceeded(releaseId: string, kind: Kind): Promise<LimitCode | null>
  processesOf(releaseId: string): Promise<number[]>
  kill(releaseId: string, kind?: Kind): Promise<void>
  remove(releaseId: string): Promise<void>
  /** The releases that have processes. */
  occupied(): Promise<string[]>
}

const kinds: readonly Kind[] = ['build', 'app']
const codes: Readonly<Record<Exceeded, LimitCode>> = { memory: 'out_of_memory', processes: 'too_many_processes' }
const groupOf = (releaseId: string, kind: Kind): string => `${releaseId}.${kind}`

/** Nothing holds anything: for machines without all of it. */
export const noMeans: Means = { cgroups: null, prlimit: null, sandbox: null, programs: [], dataDirectory: '/nowhere' }

export function createConfinement(means: Means): Confinement {
  const { cgroups, prlimit, sandbox } = means
  const groupsMemory = cgroups?.controllers.has('memory') === true
  const groupsProcesses = cgroups?.controllers.has('pids') === true
  const processesIn = async (releaseId: string): Promise<number[]> =>
    (await Promise.all(kinds.map((kind) => cgroups?.processesOf(groupOf(releaseId, kind)) ?? []))).flat()
  const memory = createMemoryWatch()

  return {
    warning: warningOf(means, process.getuid?.() === 0),

    async open(release, kind) {
      const name = groupOf(release.id, kind)
      const limits = groupLimits(release.limits, kind)
      memory.forget(name)
      const groups = (await cgroups?.make(name, limits)) ?? []
      const options = { groupsMemory, groupsProcesses, ownUser: release.user !== null }
      return {
        groups,
        prefix: [
          ...(prlimit === null ? [] : [prlimit, ...prlimitArguments(limits, options), '--']),
          ...(sandbox === null
            ? []
            : [sandbox.program, ...sandboxArguments(release, kind, { ...means, ...sandbox, cwd: sourceOf(release) })]),
        ],
      }
    },

    watch(release, kind, leader) {
      if (groupsMemory) return () => undefined
      const name = groupOf(release.id, kind)
      const { memoryBytes } = groupLimits(release.limits, kind)
      return memory.watch(name, { leader, memoryBytes, listed: () => cgroups?.processesOf(name) ?? [] })
    },

    async exceeded(releaseId, kind) {
      const name = groupOf(releaseId, kind)
      if (memory.exceeded(name)) return 'out_of_memory'
      const exceeded = (await cgroups?.exceeded(name)) ?? null
      return exceeded === null ? null : codes[exceeded]
    },

    processesOf: processesIn,

    async kill(releaseId, only) {
      for (const kind of only === undefined ? kinds : [only]) await cgroups?.kill(groupOf(releaseId, kind))
    },

    async remove(releaseId) {
      for (const kind of kinds) {
        memory.forget(groupOf(releaseId, kind))
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

/** What is missing, in words for the operator and for who deploys. */
export function warningOf({ sandbox }: Pick<Means, 'sandbox'>, isRoot: boolean): string | null {
  if (isRoot || sandbox !== null) return null
  return 'builds and apps run as the user of the server and can read its files: deploy only code that you trust'
}
