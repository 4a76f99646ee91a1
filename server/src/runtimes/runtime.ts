import type { Masker } from '../logs/masking.ts'
import type { LogPart } from '../logs/reader.ts'
import type { OsUser } from '../platform/users.ts'
import type { LimitCode, Limits } from './process/limits.ts'

/** What a runner needs to know of a release: where it lies and whom it runs as. */
export interface Release {
  /** The deployment's id (`dep_…`); every process of the release carries it as `FAIRLEAD_DEPLOYMENT_ID`. */
  readonly id: string
  /** Absolute path of the release's folder; the code lies in `<directory>/source`. */
  readonly directory: string
  /** Absolute path of the app's own folder that outlives releases; its `home` is `HOME`. */
  readonly appDirectory: string
  /** Absolute path of the folder of its logs, which outlive the release; apps have no way into it. */
  readonly logDirectory: string
  /** Whom builds and the app run as; `null` when the server itself is not root. */
  readonly user: OsUser | null
  /** What it may use, by the plan of its project. */
  readonly limits: Limits
  /** The app's own variables. */
  readonly variables: Readonly<Record<string, string>>
}

/** One command of a plan: an argument array, never a shell line of ours. */
export interface Command {
  readonly argv: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
}

/** What turning a source tree into a running app will take. Made by the pure function `planRelease`. */
export interface Plan {
  readonly kind: 'node' | 'python' | 'procfile' | 'static' | 'command'
  /** Run in order in `<directory>/source`; the first that fails ends the build. */
  readonly build: readonly Command[]
  /** Runs once, when the build is done and before the release starts. */
  readonly release?: Command
  /** Runs for the life of the release. */
  readonly start: Command
  /** The path that tells whether it is healthy; without one, any answer on `/` below 500 does. */
  readonly health?: string
}

/** A started release. Everything in it can be written down and used by a later server process. */
export interface Instance {
  readonly releaseId: string
  readonly pid: number
  /** The kernel's start time of `pid` (clock ticks since boot), so that a reused pid is not taken for the app. */
  readonly startTime: string
  /** The port given to the app as `PORT`. */
  readonly port: number
}

export type InstanceState =
  | { readonly state: 'starting' }
  /** It listens on its port, on this loopback address. */
  | { readonly state: 'listening'; readonly host: '127.0.0.1' | '::1' }
  /** It listens, but not on the port it was given. */
  | { readonly state: 'elsewhere'; readonly ports: readonly number[] }
  | {
      readonly state: 'exited'
      readonly code: number | null
      readonly signal: string | null
      readonly exceeded: LimitCode | null
    }

export type BuildOutcome =
  | { readonly ok: true }
  | {
      readonly ok: false
      readonly command: string
      readonly code: number | null
      readonly signal: string | null
      readonly exceeded: LimitCode | null
    }

/** What a log is of: the build, or the app as it runs. */
export type LogStream = 'build' | 'runtime'

export type LogPlace = Pick<Release, 'logDirectory'>

export interface StopOptions {
  readonly graceMs: number
  /** Leaves off at once, without an error: from then on nothing more is ended. */
  readonly signal?: AbortSignal
}

/**
 * Runs what tenants bring. One small interface, so that containers can stand beside processes later.
 * Every method is safe to call again, and for things that are already gone.
 */
export interface Runner {
  /** Runs the plan's build commands. Rejects with the signal's reason when aborted; nothing is left running either way. */
  build(release: Release, plan: Plan, options: { signal: AbortSignal }): Promise<BuildOutcome>
  /** Starts the release on a free port; resolves as soon as the process exists. */
  start(release: Release, plan: Plan): Promise<Instance>
  inspect(instance: Instance): Promise<InstanceState>
  /** Whether its process lives: much cheaper than `inspect`, for what is asked every second. */
  lives(instance: Instance): boolean
  /** SIGTERM, then SIGKILL after `graceMs`; resolves when no process of the release is left. */
  stop(instance: Instance, options: StopOptions): Promise<void>
  /** The last lines that the build or the app wrote, oldest first, with the values of its variables masked. */
  logs(release: LogPlace & Pick<Release, 'variables'>, stream: LogStream, options: { lines: number }): Promise<string[]>
  /** Where its last lines begin, of those written at `since` (milliseconds) or later; how many they are; its end. */
  logStart(
    release: LogPlace,
    stream: LogStream,
    options: { lines: number; since?: number | undefined },
  ): Promise<{ position: number; lines: number; end: number }>
  /** Some of the whole lines from a position on; of a log that nobody writes any more `isFinal` gives the last one, too. */
  readLog(
    release: LogPlace,
    stream: LogStream,
    options: { from: number; masker: Masker; isFinal: boolean },
  ): Promise<LogPart>
  /** Looks after an app that an earlier server started as `start` does: its memory, the times of what it writes. */
  adopt(release: Pick<Release, 'id' | 'logDirectory' | 'limits'>, instance: Instance): Promise<void>
  /** Ends whatever still runs of the release, like `stop`, and at once without `graceMs`; its files stay, closed. */
  halt(release: Pick<Release, 'id' | 'directory'>, options?: StopOptions): Promise<void>
  /** Kills whatever still runs of the release and deletes its folder; its logs stay. */
  remove(release: Pick<Release, 'id' | 'directory'>): Promise<void>
  /** The ids of all releases that processes on this machine belong to, other servers' included. */
  withProcesses(): Promise<Set<string>>
}
