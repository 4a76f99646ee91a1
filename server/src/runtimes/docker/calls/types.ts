/*
 * The parts of the engine's answers about containers and images that are read here, under the engine's own names.
 */

export interface Container {
  readonly Id: string
  readonly State: ContainerState
  readonly Image: string
  readonly Config: {
    readonly Labels: Readonly<Record<string, string>> | null
    readonly StopSignal?: string
    readonly ExposedPorts?: Readonly<Record<string, object>> | null
    readonly Shell?: readonly string[] | null
    /** `Test` is `CMD` or `CMD-SHELL` and the words after it; the time is in nanoseconds, 0 or absent for the engine's own. */
    readonly Healthcheck?: { readonly Test?: readonly string[] | null; readonly Timeout?: number } | null
  }
  readonly HostConfig: HostConfig
  readonly Mounts: readonly { readonly Type: string; readonly Source: string }[]
  readonly NetworkSettings: {
    readonly Networks: Readonly<Record<string, { readonly IPAddress: string; readonly Gateway: string }>> | null
  }
}

export interface ContainerState {
  readonly Status: 'created' | 'running' | 'paused' | 'restarting' | 'removing' | 'exited' | 'dead'
  readonly Running: boolean
  readonly OOMKilled: boolean
  /** The first process, by the number that it has on this machine; 0 when it has ended. */
  readonly Pid: number
  readonly ExitCode: number
  readonly Health?: {
    readonly Status: 'none' | 'starting' | 'healthy' | 'unhealthy'
    /** The newest checks, the last one last. */
    readonly Log?: readonly { readonly ExitCode: number; readonly Output: string }[] | null
  } | null
}

export interface HostConfig {
  readonly Memory?: number
  readonly PidsLimit?: number | null
  readonly NetworkMode?: string
  readonly PidMode?: string
  readonly IpcMode?: string
  readonly UTSMode?: string
  readonly UsernsMode?: string
  readonly Privileged?: boolean
  readonly ReadonlyRootfs?: boolean
  readonly CapAdd?: readonly string[] | null
  readonly CapDrop?: readonly string[] | null
  readonly SecurityOpt?: readonly string[] | null
  readonly Binds?: readonly string[] | null
  readonly Mounts?: readonly { readonly Source: string; readonly Target?: string }[] | null
  readonly Devices?: readonly object[] | null
  readonly PortBindings?: Readonly<Record<string, unknown>> | null
  readonly [other: string]: unknown
}

/** A container as lists show it. */
export interface ListedContainer {
  readonly Id: string
  readonly State: ContainerState['Status']
  readonly Labels: Readonly<Record<string, string>>
  /** The bytes that it has written; only when they were asked for. */
  readonly SizeRw?: number
}

export interface Image {
  readonly Id: string
  readonly RepoTags: readonly string[] | null
  readonly RepoDigests: readonly string[] | null
  /** With all of its layers, in bytes. */
  readonly Size: number
  readonly Os: string
  readonly Architecture: string
  readonly RootFS?: { readonly Layers?: readonly string[] | null }
  readonly Config?: {
    readonly Labels?: Readonly<Record<string, string>> | null
    readonly ExposedPorts?: Readonly<Record<string, object>> | null
    readonly Entrypoint?: readonly string[] | null
    readonly Cmd?: readonly string[] | null
    /** Times in nanoseconds; 0 or absent for the engine's own. */
    readonly Healthcheck?: { readonly Interval?: number; readonly StartInterval?: number } | null
  } | null
}
