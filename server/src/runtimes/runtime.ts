import type { FileHandle } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import type { Command } from '../platform/command.ts'
import type { ToolRequest } from '../platform/toolchain.ts'
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
  /** Makes releases that are container images; null where the runtime runs none. */
  readonly images: Images | null
}

/** The protections and features that a runtime has on this host. */
export interface Capabilities {
  /** Tells what builds and apps can do that they should not; null when they are isolated. */
  readonly warning: string | null
  /** True when `attach` can give a command a terminal. */
  readonly terminal: boolean
  /** True when releases can be copied. */
  readonly copies: boolean
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
  /** The apps of a project may reach each other, where the runtime has networks for it. */
  readonly projectId: string
  /** The name by which they find this one, as `<name>.internal`; null for instances that take no connections. */
  readonly internalName: string | null
  readonly limits: Limits
  /** The app's own variables. */
  readonly variables: Readonly<Record<string, string>>
  /** How often their values were replaced: an instance with fewer has older ones. Absent for 0. */
  readonly rotations?: number
  /**
   * The app's folders that are kept over releases, which its instances and the commands beside them see, builds not: the absolute
   * path of each in the app, by its name.
   */
  readonly volumes?: Readonly<Record<string, string>>
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
  /**
   * Makes the sources the property of the build: from now on nothing but the release's own commands changes them.
   *
   * @param next says whether commands build the release and which one starts it, as far as that is known: a runtime may
   *   prepare for them
   */
  seal(
    release: Release,
    signal: AbortSignal,
    next?: { readonly builds: boolean; readonly start: Command | null },
  ): Promise<void>
  /**
   * Makes a release, ready to be built or started, of the files of another one and of the programs that it runs with. The
   * two share nothing afterwards. The other one may run, and is not changed.
   *
   * @throws RuntimeError of the code `no_sandbox` without the capability `copies`
   */
  copy(from: ReleaseRef, release: Release, signal: AbortSignal): Promise<void>
  /**
   * Runs `steps` with a function that runs one command in the sources, once no other build of the app is under way.
   * Everything that the commands started has ended when this settles. Rejects as `steps` does.
   *
   * @param options.output receives what the commands print; stays open
   * @param options.toolchain the programs that the release is built with, and from then on runs with. A runtime that cannot
   *   choose versions ignores it; `kept` leaves those of a copy as they are
   * @throws RuntimeError when a program cannot be had
   */
  build<T>(
    release: Release,
    options: {
      readonly output: FileHandle
      readonly signal: AbortSignal
      readonly toolchain?: readonly ToolRequest[] | 'kept' | undefined
    },
    steps: (run: RunCommand) => Promise<T>,
  ): Promise<T>
  /** True while a build of the app is under way or waits. */
  isBuilding(appId: string): boolean
}

/**
 * Makes releases that are container images. Such a release starts by `fairlead-image`, see `platform/toolchain.ts`, or by a
 * command that takes the place of the image's own.
 */
export interface Images {
  /** False where this machine lacks something to build Dockerfiles: `build` says what. */
  readonly canBuild: boolean
  /**
   * Gets an image from its registry and makes it the release.
   *
   * @param options.output receives the progress; stays open
   * @returns the reference by which the very same image is found again: `registry/name@sha256:…`
   * @throws RuntimeError of the codes that begin with `image_` or `registry_`, `too_large` and `no_space`
   */
  pull(
    release: Release,
    image: { readonly reference: string; readonly credentials: RegistryCredentials | null },
    options: { readonly output: FileHandle; readonly signal: AbortSignal },
  ): Promise<string>
  /**
   * Builds a Dockerfile of the sealed sources, once no other build of the app is under way, and makes the image the release.
   * Rejects with the signal's reason when it aborts; nothing is left running either way.
   *
   * @param file.path from the top of the sources
   * @param file.target the stage to build; null for the last one
   * @param file.context the folder whose files the build sees, from the top of the sources; `.` for all of them
   * @param options.output receives what the build prints; stays open
   * @param options.credentialsFor returns the credentials for a registry of images that the Dockerfile names, as references have
   *   its host; null without any. Its errors end the build
   * @throws RuntimeError `image_denied` or `image_not_found` for an image that its registry refuses
   */
  build(
    release: Release,
    file: { readonly path: string; readonly target: string | null; readonly context: string },
    options: {
      readonly output: FileHandle
      readonly signal: AbortSignal
      readonly credentialsFor: (registry: string) => Promise<RegistryCredentials | null>
    },
  ): Promise<Exit>
}

/** The name and password for one registry. */
export interface RegistryCredentials {
  readonly username: string
  readonly password: string
}

/** Runs one command of a build. Rejects with the signal's reason when it aborts; nothing is left running either way. */
export type RunCommand = (command: Command, signal: AbortSignal) => Promise<Exit>

/** A started instance as it is stored: only the runtime that is named can read `data`. */
export interface Handle {
  readonly runtime: string
  readonly data: Readonly<Record<string, string | number>>
  /** The name of the instance among those of its release, such as `worker.2`, which no runtime needs; absent for `web.1`. */
  readonly process?: string
  /** The position in its log, in bytes, at which its output begins: earlier lines are of an instance before it. Absent for 0. */
  readonly logFrom?: number
  /** The `rotations` of the release when it was started. Absent for 0. */
  readonly rotations?: number
}

/**
 * An address at which an instance takes connections from the gateway; for a static site without a process of its own the
 * absolute path of its folder, without links, from which the gateway answers itself; with `fallback`, a page answers for
 * paths without a file.
 */
export type Endpoint =
  | { readonly host: string; readonly port: number }
  | { readonly folder: string; readonly fallback?: true }

/** The state of an instance when it was observed. */
export type Observation =
  /** It does not listen yet; `port` is its `PORT`. */
  | { readonly state: 'starting'; readonly port: number }
  /** It listens, but says itself that it is not ready; `problem` is a clause for people. */
  | { readonly state: 'unready'; readonly problem: string }
  | { readonly state: 'listening'; readonly endpoints: readonly [Endpoint, ...Endpoint[]] }
  /**
   * It listens on `ports`, but not where connections to `port`, its `PORT`, arrive. `servable` is the one of them that
   * `serveAt` can lead connections to; null where there is none, or more than one.
   */
  | {
      readonly state: 'wrong_port'
      readonly port: number
      readonly ports: readonly number[]
      readonly servable: number | null
    }
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
   * Starts the command of a release and resolves as soon as the instance exists. The command `fairlead-static` stands for
   * a static site: it needs no process when the instance has an endpoint that is a folder.
   *
   * @param output receives what the instance prints, also when the server is gone; the caller closes its own handle
   * @param options.beside true for one of several instances of the release, with limits of its own; the others are left
   *   alone. Otherwise an earlier instance that was started alone is ended
   */
  start(
    release: Release,
    command: Command,
    output: FileHandle,
    options?: { readonly beside?: boolean },
  ): Promise<Handle>
  /** False for an instance that a server of an older version has started in another way than this one would. */
  isCurrent(handle: Handle, command: Command): boolean
  observe(handle: Handle): Promise<Observation>
  /**
   * Leads connections to the port that an observation called `servable`, and returns the handle by which that
   * is known from now on, in place of the given one. The instance's own `PORT` undoes it.
   */
  serveAt(handle: Handle, port: number): Promise<Handle>
  /** Calls `onExit` once, soon after the instance has ended. Returns a function that ends the watch. */
  watch(handle: Handle, onExit: () => void): () => void
  /**
   * Enforces the limits of an instance that an earlier server has started, and restores the access that it needs.
   *
   * @param output receives from now on what the instance prints, and what it has printed since the earlier server was gone, where
   *   it does not write there by itself; the caller closes its own handle
   */
  adopt(release: Release, handle: Handle, output: FileHandle): Promise<void>
  /** Ends the instance and no other one of its release; resolves when nothing of it is left. */
  stop(handle: Handle, options: StopOptions): Promise<void>
  /**
   * Runs a one-off command beside a running instance, with the release's files, variables and limits. Resolves with its
   * end. Rejects with a `RuntimeError` of the code `no_terminal` when a terminal is requested and the runtime has none, and
   * of the codes `no_process` for a static site and `not_running` when the instance has ended.
   */
  attach(release: Release, handle: Handle, request: AttachRequest): Promise<Exit>
  usage(handle: Handle): Promise<Usage>
}

export interface AttachRequest {
  readonly argv: readonly [string, ...string[]]
  /** The size of the terminal that the command gets, in some runtimes a moment after its start; null for plain pipes. */
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
  /** False for a release of which nothing was made, or nothing since it was removed: nothing of it runs either. */
  isMade(release: ReleaseRef): Promise<boolean>
  /** Removes everything that an app keeps between its releases. Nothing of it may run any more. */
  removeApp(appId: string): Promise<void>
  /**
   * Returns the free bytes of the disk on which releases are, where that is another one than the data directory's; null where it
   * is not, or cannot be looked at.
   */
  freeElsewhere?(): Promise<number | null>
  /** Lists everything that carries the label of this server. */
  list(): Promise<Inventory>
  /**
   * Ends the instances of a release that none of these handles names: nobody knows of those that a server has started right before
   * it was killed.
   */
  endOthers(release: ReleaseRef, known: readonly Handle[]): Promise<void>
  /**
   * Returns the bytes on the disk of the release itself, of what all releases of its app share, or of all of it. Those of the
   * release include removed files that its processes have open, but for the part `files`. Returns some number above `enough` as soon
   * as there are more; infinity where a folder cannot be read.
   */
  diskUsage(release: ReleaseRef, part: 'release' | 'files' | 'shared' | 'all', enough?: number): Promise<number>
}

export interface Inventory {
  readonly apps: readonly { readonly id: string; readonly releases: readonly string[] }[]
  /** The ids of releases of which something runs, or has ended and is left. */
  readonly running: ReadonlySet<string>
  /** The number of instances of each of these that have a process or a container, also of those about to start. */
  readonly instances: ReadonlyMap<string, number>
}

export type RuntimeErrorCode =
  | 'no_terminal'
  | 'no_process'
  | 'not_running'
  /** Another program has removed the container of a command, whose exit nobody knows. */
  | 'container_removed'
  | 'no_sandbox'
  | 'tool_unavailable'
  | 'wrong_hash'
  /** The registry does not know the image, or hides it from those who give no credentials. */
  | 'image_not_found'
  /** The registry refuses the credentials, or asks for some. */
  | 'image_denied'
  /** The image is made for another kind of machine. */
  | 'image_platform'
  | 'too_large'
  | 'no_space'
  | 'registry_unreachable'

/** A request that a runtime cannot fulfil. The message tells the reader what to do. */
export class RuntimeError extends Error {
  override readonly name = 'RuntimeError'
  readonly code: RuntimeErrorCode

  constructor(code: RuntimeErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Ports that debuggers of Node, Java and Python open by default. They answer, but are nothing to serve, and often open
 * before the app's own port.
 */
export const debuggerPorts: ReadonlySet<number> = new Set([9229, 5005, 5678])
