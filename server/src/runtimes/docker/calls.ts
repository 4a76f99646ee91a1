import { randomUUID } from 'node:crypto'
import { type ReleaseRef, RuntimeError } from '../runtime.ts'
import type { Engine } from './client.ts'
import { EngineError, tooLong, unlessMissing } from './errors.ts'
import { commandLabel, labelFilter, labelsOf, serverLabel, waiterLabel } from './names.ts'

/* Containers and images, under the engine's names, as far as Fairlead uses them. */

export interface Container {
  readonly Id: string
  readonly State: ContainerState
  readonly Image: string
  readonly Config: {
    readonly Labels: Readonly<Record<string, string>> | null
    readonly StopSignal?: string
    readonly ExposedPorts?: Readonly<Record<string, object>> | null
    readonly Shell?: readonly string[] | null
    /** `Test` is `CMD` or `CMD-SHELL` and words. The time is in nanoseconds; 0 or absent for the engine's default. */
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
  /** The pid of the first process on this machine; 0 after its end. */
  readonly Pid: number
  readonly ExitCode: number
  readonly Health?: {
    readonly Status: 'none' | 'starting' | 'healthy' | 'unhealthy'
    /** The latest checks, from oldest to newest. */
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

export interface ListedContainer {
  readonly Id: string
  readonly State: ContainerState['Status']
  readonly Labels: Readonly<Record<string, string>>
  /** The bytes that the container has written; only on request. */
  readonly SizeRw?: number
}

export interface Image {
  readonly Id: string
  readonly RepoTags: readonly string[] | null
  readonly RepoDigests: readonly string[] | null
  /** The bytes of all layers. */
  readonly Size: number
  readonly Os: string
  readonly Architecture: string
  readonly RootFS?: { readonly Layers?: readonly string[] | null }
  readonly Config?: {
    readonly Labels?: Readonly<Record<string, string>> | null
    readonly ExposedPorts?: Readonly<Record<string, object>> | null
    readonly Entrypoint?: readonly string[] | null
    readonly Cmd?: readonly string[] | null
    /** The times are in nanoseconds; 0 or absent for the engine's default. */
    readonly Healthcheck?: { readonly Interval?: number; readonly StartInterval?: number } | null
  } | null
}

export interface ListOptions {
  readonly size?: boolean
  readonly health?: 'unhealthy'
}

/** The calls about containers of this server. Calls that change something check the fence first. */
export interface Containers {
  /** Returns a container; null for an unknown container. */
  inspect(id: string): Promise<Container | null>
  /** Returns an image; null for an unknown image. */
  image(name: string): Promise<Image | null>
  /** Lists the containers of this server with these labels, also ended containers. */
  list(labels: Readonly<Record<string, string | null>>, options?: ListOptions): Promise<ListedContainer[]>
  listOf(release: ReleaseRef, options?: { readonly size?: boolean }): Promise<ListedContainer[]>
  create(specification: object): Promise<string>
  start(id: string): Promise<void>
  /** Sends a signal; does nothing for an ended container. */
  signal(id: string, signal: string): Promise<void>
  /** Resolves with the exit status when the container ends; null when it was removed before. */
  ended(id: string, signal?: AbortSignal): Promise<number | null>
  /** Removes the container with its volumes, running or not. */
  remove(id: string): Promise<void>
}

export function createContainers(engine: Engine, server: string, fence: () => void): Containers {
  const at = (id: string, ...rest: string[]) => ['containers', id, ...rest]
  const list: Containers['list'] = (labels, { size, health } = {}) =>
    engine.call({
      method: 'GET',
      path: ['containers', 'json'],
      query: {
        ...{ all: true, size },
        filters: { ...labelFilter({ [serverLabel]: server, ...labels }), ...(health && { health: [health] }) },
      },
    })
  const change = async (method: 'POST' | 'DELETE', path: string[], query = {}): Promise<void> => {
    fence()
    await engine.call({ method, path, query })
  }
  return {
    inspect: (id) => unlessMissing(engine.call<Container>({ method: 'GET', path: at(id, 'json') }), null),
    image: (name) => inspectImage(engine, name),
    list,
    listOf: (release, options) => list(labelsOf(server, release), options),
    async create(specification) {
      fence()
      const created = await engine.call<{ Id: string }>({
        method: 'POST',
        path: ['containers', 'create'],
        body: specification,
      })
      return created.Id
    },
    start: (id) => change('POST', at(id, 'start')),
    signal: (id, signal) => unlessEnded(change('POST', at(id, 'kill'), { signal })),
    async ended(id, signal) {
      const path = at(id, 'wait')
      const wait = engine.call<{ StatusCode: number }>({
        method: 'POST',
        path,
        timeoutMs: 0,
        ...(signal === undefined ? {} : { signal }),
      })
      return (await unlessMissing(wait, { StatusCode: null })).StatusCode
    },
    remove: (id) => unlessEnded(change('DELETE', at(id), { force: true, v: true })),
  }
}

/** The engine answers 404 or 409 for a container that has ended or is being removed. */
async function unlessEnded(call: Promise<void>): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof EngineError) || (error.status !== 404 && error.status !== 409)) throw error
  }
}

/**
 * Distinguishes awaited containers from containers that were left over: one-off commands, and containers that only hold
 * files.
 */
export interface Waiters {
  /**
   * Calls `use` with labels for a container, which is awaited until `use` settles. `purpose` is the value of
   * `commandLabel`.
   */
  during<T>(purpose: string, use: (labels: Readonly<Record<string, string>>) => Promise<T>): Promise<T>
  /** Removes left-over containers: their server was killed, or the engine was away at the time of their removal. */
  removeLeft(): Promise<void>
}

export function createWaiters(containers: Pick<Containers, 'list' | 'remove'>): Waiters {
  const waiting = new Set<string>()
  return {
    async during(purpose, use) {
      const waiter = randomUUID()
      waiting.add(waiter)
      try {
        return await use({ [commandLabel]: purpose, [waiterLabel]: waiter })
      } finally {
        waiting.delete(waiter)
      }
    },

    async removeLeft() {
      const listed = await containers.list({ [commandLabel]: null })
      const left = listed.filter(({ Labels }) => Labels[commandLabel] !== '' && !waiting.has(Labels[waiterLabel] ?? ''))
      for (const { Id } of left) await containers.remove(Id)
    },
  }
}

/**
 * The server keeps the configuration in memory, and each list of containers has the image's labels. Usual
 * configurations have some kilobytes.
 */
const mostConfigBytes = 256_000
/** The description of an image includes its layers: some dozens. */
const mostImageBytes = 4_000_000

/**
 * Returns the description of an image; null for an unknown image.
 *
 * @param name the name or the id
 */
export const inspectImage = (engine: Pick<Engine, 'call'>, name: string): Promise<Image | null> =>
  unlessMissing(engine.call<Image>({ method: 'GET', path: ['images', name, 'json'], mostBytes: mostImageBytes }), null)

/**
 * Like `inspectImage`, for an image that somebody wants to deploy.
 *
 * @param shown the name for messages
 * @throws RuntimeError when its configuration is too large
 */
export async function inspectForeign(engine: Pick<Engine, 'call'>, name: string, shown: string): Promise<Image | null> {
  const image = await inspectImage(engine, name).catch((error: unknown) => {
    throw error instanceof EngineError && error.status === tooLong ? configTooLarge(shown) : error
  })
  if (Buffer.byteLength(JSON.stringify(image?.Config ?? null)) > mostConfigBytes) throw configTooLarge(shown)
  return image
}

const configTooLarge = (shown: string): RuntimeError =>
  new RuntimeError(
    'too_large',
    `The configuration of ${shown} has more than ${mostConfigBytes / 1_000} kB: its labels, its variables, its command and its health check together. Make them smaller.`,
  )
