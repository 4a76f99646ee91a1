import type { FileHandle } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import type { Command } from '../platform/command.ts'
import type { ExceededLimit, Limits } from './limits.ts'

/**
 * Builds and runs the releases of tenants, as processes of this machine for example. Where a release is stored, the user
 * it runs as and how it is found again are hidden behind this interface. All methods may be repeated, and may be called
 * for things that are already gone.
 */
export interface Runtime {
  /** Stored with every handle, so that a later server asks the same runtime again. */
  readonly name: string
  readonly capabilities: Capabilities
  readonly builder: Builder
  readonly instances: Instances
  readonly releases: ReleaseStore
}

/** The protections and features that a runtime has on this host. */
export interface Capabilities {
  /** Tells what builds and apps can do that they should not; null when they are isolated. */
  readonly warning: string | null
  /** True when `attach` can give a command a terminal. */
  readonly terminal: boolean
  /** For the server's log. */
  readonly details: Readonly<Record<string, string | boolean>>
}

/** Names a release, also one whose deployment is gone. */
export interface ReleaseRef {
  /** The id of its deployment (`dep_…`), which labels everything that belongs to it. */
  readonly id: string
  readonly appId: string
}

/** A release with what it needs to be built and to run. */
export interface Release extends ReleaseRef {
  /** The serial number of the app in this server's database. */
  readonly appNumber: number
  readonly limits: Limits
  /** The app's own variables. */
  readonly variables: Readonly<Record<string, string>>
}

/** The end of a command or an instance. `exceeded` is the limit that ended it, if one did. */
export interface Exit {
  readonly code: number | null
  readonly signal: string | null
  readonly exceeded: ExceededLimit | null
}

/** Turns source trees into releases that can be started. */
export interface Builder {
  /** Makes an empty folder for the release's sources and returns its absolute path. */
  prepare(release: ReleaseRef): Promise<string>
  /** Makes the sources the property of the build: from now on nothing but the release's own commands changes them. */
  seal(release: Release, signal: AbortSignal): Promise<void>
  /**
   * Runs `steps` with a function that runs one command in the sources, once no other build of the app is under way.
   * Everything that the commands started has ended when this settles. Rejects as `steps` does.
   *
   * @param options.output receives what the commands print; stays open
   */
  build<T>(
    release: Release,
    options: { readonly output: FileHandle; readonly signal: AbortSignal },
    steps: (run: RunCommand) => Promise<T>,
  ): Promise<T>
  /** True while a build of the app is under way or waits. */
  isBuilding(appId: string): boolean
}

/** Runs one command of a build. Rejects with the signal's reason when it aborts; nothing is left running either way. */
export type RunCommand = (command: Command, signal: AbortSignal) => Promise<Exit>

/** A started instance as it is stored: only the runtime that is named can read `data`. */
export interface Handle {
  readonly runtime: string
  readonly data: Readonly<Record<string, string | number>>
}

/** An address at which an instance takes connections from the gateway. */
export interface Endpoint {
  readonly host: string
  readonly port: number
}

/** The state of an instance when it was observed. */
export type Observation =
  /** It does not listen yet; `port` is its `PORT`. */
  | { readonly state: 'starting'; readonly port: number }
  | { readonly state: 'listening'; readonly endpoints: readonly [Endpoint, ...Endpoint[]] }
  /** It listens on other ports than the one in `PORT`. */
  | { readonly state: 'wrong_port'; readonly ports: readonly number[] }
  | ({ readonly state: 'exited' } & Exit)

export interface StopOptions {
  /** Milliseconds from the request to end (SIGTERM) to the end by force (SIGKILL). */
  readonly graceMs: number
  /** Gives up without an error as soon as it aborts: from then on nothing more is ended. */
  readonly signal?: AbortSignal
}

/** Starts, observes and stops instances of releases. Instances outlive the server. */
export interface Instances {
  /**
   * Starts the command of a release and resolves as soon as the instance exists.
   *
   * @param output receives what the instance prints, also when the server is gone; the caller closes its own handle
   */
  start(release: Release, command: Command, output: FileHandle): Promise<Handle>
  observe(handle: Handle): Promise<Observation>
  /** Calls `onExit` once, soon after the instance has ended. Returns a function that ends the watch. */
  watch(handle: Handle, onExit: () => void): () => void
  /** Enforces the limits of an instance that an earlier server has started. */
  adopt(release: Release, handle: Handle): Promise<void>
  /** Ends the instance; resolves when nothing of it is left. */
  stop(handle: Handle, options: StopOptions): Promise<void>
  /**
   * Runs a one-off command beside a running instance, with the release's files, variables and limits. Resolves with its
   * end. Rejects with a `RuntimeError` of the code `no_terminal` when a terminal is requested and the runtime has none.
   */
  attach(release: Release, handle: Handle, request: AttachRequest): Promise<Exit>
  usage(handle: Handle): Promise<Usage>
}

export interface AttachRequest {
  readonly argv: readonly [string, ...string[]]
  /** The size of the terminal that the command gets; null for plain pipes. */
  readonly tty: { readonly columns: number; readonly rows: number } | null
  readonly stdin: Readable
  readonly stdout: Writable
  readonly stderr: Writable
  /** Called once with a function that tells the terminal its new size. */
  readonly onResizable?: (resize: (columns: number, rows: number) => void) => void
  /** Ends the command. */
  readonly signal: AbortSignal
}

/** The resources that all processes of an instance use together. */
export interface Usage {
  readonly memoryBytes: number
  /** Since the start of the instance. */
  readonly cpuSeconds: number
  readonly processes: number
}

/** The releases that a runtime keeps, found by its label. */
export interface ReleaseStore {
  /** Ends everything that runs of the release, at once when no options are given; the release can be started again. */
  halt(release: ReleaseRef, options?: StopOptions): Promise<void>
  /** Ends everything that runs of the release and removes it. */
  remove(release: ReleaseRef): Promise<void>
  /** Removes everything that an app keeps between its releases. Nothing of it may run any more. */
  removeApp(appId: string): Promise<void>
  /** Lists everything that carries the label of this server. */
  list(): Promise<Inventory>
  /**
   * Returns the bytes on the disk of the release itself, or of what all releases of its app share. Returns some number
   * above `enough` as soon as there are more; infinity where a folder cannot be read.
   */
  diskUsage(release: ReleaseRef, part: 'release' | 'shared', enough?: number): Promise<number>
}

export interface Inventory {
  readonly apps: readonly { readonly id: string; readonly releases: readonly string[] }[]
  /** The ids of releases of which something runs. */
  readonly running: ReadonlySet<string>
}

/** A request that a runtime cannot fulfil. The message tells the reader what to do. */
export class RuntimeError extends Error {
  override readonly name = 'RuntimeError'
  readonly code: 'no_terminal'

  constructor(code: 'no_terminal', message: string) {
    super(message)
    this.code = code
  }
}
