import type { FileHandle } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import type { Command } from '../platform/command.ts'
import type { ToolRequest } from '../platform/toolchain.ts'
import type { ExceededLimit, Limits } from './limits.ts'

/**
 * Builds and runs the releases of tenants, for example as processes of this machine. This interface hides the storage
 * of a release, its user, and the way to find it again. Callers may repeat all methods, and may call them for things
 * that are already gone.
 */
export interface Runtime {
  /** Stored with every handle, so that a later server uses the same runtime. */
  readonly name: string
  readonly capabilities: Capabilities
  readonly builder: Builder
  readonly instances: Instances
  readonly releases: ReleaseStore
  /** Makes releases from container images; null where the runtime runs none. */
  readonly images: Images | null
}

/** The protections and features that a runtime has on this host. */
export interface Capabilities {
  /** Tells what builds and apps can do but should not; null when they are isolated. */
  readonly warning: string | null
  /** True when `attach` can give a command a terminal. */
  readonly terminal: boolean
  /** True when the runtime can copy releases. */
  readonly copies: boolean
  /** For the log of the server. */
  readonly details: Readonly<Record<string, string | boolean>>
}

/** Identifies a release, also after its deployment was deleted. */
export interface ReleaseRef {
  /** The id of the deployment (`dep_…`). It labels everything that belongs to the release. */
  readonly id: string
  readonly appId: string
}

/** A release with everything for its build and its run. */
export interface Release extends ReleaseRef {
  /** The serial number of the app in the database of the server. */
  readonly appNumber: number
  /** The apps of a project may reach each other where the runtime has project networks. */
  readonly projectId: string
  /**
   * The name of the app for the other apps of the project, as `<name>.internal`; null for instances without incoming
   * connections.
   */
  readonly internalName: string | null
  readonly limits: Limits
  readonly variables: Readonly<Record<string, string>>
  /** The number of rotations of the variables: an instance with a lower number has older values. Absent for 0. */
  readonly rotations?: number
  /**
   * The folders of the app that outlive releases: the absolute path in the app by volume name. Instances and one-off
   * commands see them, builds do not.
   */
  readonly volumes?: Readonly<Record<string, string>>
}

/** The end of a command or an instance. `exceeded` is the limit that ended it, if one did. */
export interface Exit {
  readonly code: number | null
  readonly signal: string | null
  readonly exceeded: ExceededLimit | null
}

/** Turns source trees into releases. */
export interface Builder {
  /** Makes an empty folder for the sources of the release. Returns its absolute path. */
  prepare(release: ReleaseRef): Promise<string>
  /**
   * Makes the sources the property of the build: from now on only commands of the release change them.
   *
   * @param next tells whether commands build the release, and which command starts it, as far as known: a runtime may
   *   prepare for them
   */
  seal(
    release: Release,
    signal: AbortSignal,
    next?: { readonly builds: boolean; readonly start: Command | null },
  ): Promise<void>
  /**
   * Makes a release from the files and the programs of another release. The new release is ready for a build or a
   * start. The two share nothing afterwards. The other release may run, and does not change.
   *
   * @throws RuntimeError `no_sandbox` without the capability `copies`
   */
  copy(from: ReleaseRef, release: Release, signal: AbortSignal): Promise<void>
  /**
   * Calls `steps` with a function that runs one command in the sources, after other builds of the app have ended. When
   * this settles, everything that the commands started has ended. Rejects as `steps` does.
   *
   * @param options.output receives the output of the commands; stays open
   * @param options.toolchain the programs of the release, for the build and for later starts. A runtime that cannot
   *   choose versions ignores it; `kept` keeps the programs of a copy
   * @throws RuntimeError when a program is unavailable
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
  /** True while a build of the app runs or waits. */
  isBuilding(appId: string): boolean
}

/**
 * Makes releases from container images. Such a release starts with `fairlead-image` (see `platform/toolchain.ts`), or
 * with a command that replaces the command of the image.
 */
export interface Images {
  /** False where this machine lacks something for builds of Dockerfiles: `build` then states what. */
  readonly canBuild: boolean
  /**
   * Pulls an image from its registry and makes it the release.
   *
   * @param options.output receives the progress; stays open
   * @returns the reference to exactly this image: `registry/name@sha256:…`
   * @throws RuntimeError with a code that begins with `image_` or `registry_`, `too_large` or `no_space`
   */
  pull(
    release: Release,
    image: { readonly reference: string; readonly credentials: RegistryCredentials | null },
    options: { readonly output: FileHandle; readonly signal: AbortSignal },
  ): Promise<string>
  /**
   * Builds a Dockerfile of the sealed sources, after other builds of the app have ended, and makes the image the
   * release. Rejects with the reason of the signal when it aborts. No process remains in any case.
   *
   * @param file.path from the top of the sources
   * @param file.target the stage to build; null for the last stage
   * @param file.context the folder with the files for the build, from the top of the sources; `.` for all sources
   * @param options.output receives the output of the build; stays open
   * @param options.credentialsFor returns the credentials for a registry of images in the Dockerfile, by the host in
   *   the references; null without credentials. Its errors end the build
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

export interface RegistryCredentials {
  readonly username: string
  readonly password: string
}

/**
 * Runs one command of a build. Rejects with the reason of the signal when it aborts. No process remains in any case.
 */
export type RunCommand = (command: Command, signal: AbortSignal) => Promise<Exit>

/** A started instance in stored form. Only the named runtime can read `data`. */
export interface Handle {
  readonly runtime: string
  readonly data: Readonly<Record<string, string | number>>
  /** The name of the instance in its release, such as `worker.2`; absent for `web.1`. No runtime needs it. */
  readonly process?: string
  /** The byte position of its first output in the log: an earlier instance wrote the lines before. Absent for 0. */
  readonly logFrom?: number
  /** The `rotations` of the release at the start. Absent for 0. */
  readonly rotations?: number
}

/**
 * An address for connections from the gateway. For a static site without a process, it is the absolute path of its
 * folder, without links, and the gateway answers from the folder; with `fallback`, a page answers for paths without a
 * file.
 */
export type Endpoint =
  | { readonly host: string; readonly port: number }
  | { readonly folder: string; readonly fallback?: true }

export type Observation =
  /** The instance does not listen yet; `port` is its `PORT`. */
  | { readonly state: 'starting'; readonly port: number }
  /** The instance listens, but reports that it is not ready; `problem` is a clause for people. */
  | { readonly state: 'unready'; readonly problem: string }
  | { readonly state: 'listening'; readonly endpoints: readonly [Endpoint, ...Endpoint[]] }
  /**
   * The instance listens on `ports`, but not where connections to `port`, its `PORT`, arrive. `servable` is the single
   * port among `ports` that `serveAt` can redirect connections to; null without such a port, or with several.
   */
  | {
      readonly state: 'wrong_port'
      readonly port: number
      readonly ports: readonly number[]
      readonly servable: number | null
    }
  | ({ readonly state: 'exited' } & Exit)

export interface StopOptions {
  /** The time between SIGTERM and SIGKILL in milliseconds. */
  readonly graceMs: number
  /** Gives up without an error when it aborts: from then on nothing more ends. */
  readonly signal?: AbortSignal
}

/** Starts, observes and stops instances of releases. Instances outlive the server. */
export interface Instances {
  /**
   * Starts the command of a release and resolves as soon as the instance exists. The command `fairlead-static` stands
   * for a static site, which needs no process when its endpoint is a folder.
   *
   * @param output receives the output of the instance, also after the end of the server; the caller closes its handle
   * @param options.beside true for one of several instances of the release, each with separate limits; the start leaves
   *   other instances alone. Otherwise it ends the earlier instance, if any, that was started without `beside`
   */
  start(
    release: Release,
    command: Command,
    output: FileHandle,
    options?: { readonly beside?: boolean },
  ): Promise<Handle>
  observe(handle: Handle): Promise<Observation>
  /**
   * Redirects connections to the port that an observation called `servable`. Returns a handle with this port, which
   * replaces the given handle. A call with the `PORT` of the instance undoes it.
   */
  serveAt(handle: Handle, port: number): Promise<Handle>
  /** Calls `onExit` once, soon after the instance ends. Returns a function that ends the watch. */
  watch(handle: Handle, onExit: () => void): () => void
  /**
   * Enforces the limits of an instance of an earlier server, and restores the access that the instance needs.
   *
   * @param output where the instance does not write to it directly, receives the output of the instance from the end of
   *   the earlier server on; the caller closes its handle
   */
  adopt(release: Release, handle: Handle, output: FileHandle): Promise<void>
  /** Ends the instance and no other instance of the release. Resolves when nothing of the instance remains. */
  stop(handle: Handle, options: StopOptions): Promise<void>
  /**
   * Runs a one-off command beside a running instance, with the files, variables and limits of the release. Resolves
   * with the exit of the command.
   *
   * @throws RuntimeError `no_terminal` for a terminal in a runtime without terminals, `no_process` for a static site,
   *   and `not_running` when the instance has ended
   */
  attach(release: Release, handle: Handle, request: AttachRequest): Promise<Exit>
  usage(handle: Handle): Promise<Usage>
}

export interface AttachRequest {
  readonly argv: readonly [string, ...string[]]
  /** The size of the terminal of the command (in some runtimes set a moment after the start); null for plain pipes. */
  readonly tty: { readonly columns: number; readonly rows: number } | null
  readonly stdin: Readable
  readonly stdout: Writable
  readonly stderr: Writable
  /** Called once with a function that sets a new size of the terminal. */
  readonly onResizable?: (resize: (columns: number, rows: number) => void) => void
  /** Ends the command when it aborts. */
  readonly signal: AbortSignal
}

/** The resource use of all processes of an instance together. */
export interface Usage {
  readonly memoryBytes: number
  /** Since the start of the instance. */
  readonly cpuSeconds: number
  readonly processes: number
}

/** The releases of a runtime, found by its label. */
export interface ReleaseStore {
  /** Ends everything that runs of the release, immediately without options. The release can start again. */
  halt(release: ReleaseRef, options?: StopOptions): Promise<void>
  /** Ends everything of the release and removes the release. */
  remove(release: ReleaseRef): Promise<void>
  /** False for a release without any parts, new or removed: nothing of it runs either. */
  isMade(release: ReleaseRef): Promise<boolean>
  /** Removes everything that an app keeps between its releases. Nothing of the app may run. */
  removeApp(appId: string): Promise<void>
  /**
   * Returns the free bytes on the disk of releases; null when it is the disk of the data directory, or is not
   * accessible.
   */
  freeElsewhere?(): Promise<number | null>
  /** Lists everything with the label of this server. */
  list(): Promise<Inventory>
  /**
   * Ends the instances of a release that are not in `known`: a server that is killed right after a start has not stored
   * the handle.
   */
  endOthers(release: ReleaseRef, known: readonly Handle[]): Promise<void>
  /**
   * Returns the disk use in bytes: of the release itself, of the folders that all releases of its app share, or of
   * both. Except for the part `files`, the release includes removed files that its processes still have open. May
   * return any number above `enough` as soon as there are more bytes; infinity when a folder is unreadable.
   */
  diskUsage(release: ReleaseRef, part: 'release' | 'files' | 'shared' | 'all', enough?: number): Promise<number>
}

export interface Inventory {
  readonly apps: readonly { readonly id: string; readonly releases: readonly string[] }[]
  /** The ids of releases with something that runs, or that has ended but remains. */
  readonly running: ReadonlySet<string>
  /** The number of instances of each of these releases with a process or a container, also of starting instances. */
  readonly instances: ReadonlyMap<string, number>
}

export type RuntimeErrorCode =
  | 'no_terminal'
  | 'no_process'
  | 'not_running'
  /** Another program has removed the container of a command, so its exit is unknown. */
  | 'container_removed'
  | 'no_sandbox'
  | 'tool_unavailable'
  | 'wrong_hash'
  /** The registry does not know the image, or hides it from clients without credentials. */
  | 'image_not_found'
  /** The registry refuses the credentials, or requires credentials. */
  | 'image_denied'
  /** The image is for another kind of machine. */
  | 'image_platform'
  | 'too_large'
  | 'no_space'
  | 'registry_unreachable'

/** A runtime cannot fulfil a request. The message tells the reader what to do. */
export class RuntimeError extends Error {
  override readonly name = 'RuntimeError'
  readonly code: RuntimeErrorCode

  constructor(code: RuntimeErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * The default ports of debuggers for Node, Java and Python. They answer but serve nothing, and often open before the
 * port of the app.
 */
export const debuggerPorts: ReadonlySet<number> = new Set([9229, 5005, 5678])
