import { randomUUID } from 'node:crypto'
import { type ReleaseRef, RuntimeError } from '../runtime.ts'
import type { Engine } from './client.ts'
import { EngineError, tooLong, unlessMissing } from './errors.ts'
import { commandLabel, labelFilter, labelsOf, serverLabel, waiterLabel } from './names.ts'

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

export interface ListOptions {
  /** True for the bytes that they have written, too. */
  readonly size?: boolean
  /** Only those of which the health check of their image says this. */
  readonly health?: 'unhealthy'
}

/** The calls about containers of this server. Those that change something ask the fence first. */
export interface Containers {
  /** Null when there is no such container. */
  inspect(id: string): Promise<Container | null>
  /** Null when there is no such image. */
  image(name: string): Promise<Image | null>
  /** Lists the containers of this server with these labels, also those that have ended. */
  list(labels: Readonly<Record<string, string | null>>, options?: ListOptions): Promise<ListedContainer[]>
  listOf(release: ReleaseRef, options?: { readonly size?: boolean }): Promise<ListedContainer[]>
  create(specification: object): Promise<string>
  start(id: string): Promise<void>
  /** Sends a signal; a container that has ended gets none. */
  signal(id: string, signal: string): Promise<void>
  /** Resolves when it has ended, with its status; null for one that was removed before it told it. */
  ended(id: string, signal?: AbortSignal): Promise<number | null>
  /** Removes it with its own volumes, running or not. */
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

/** The engine answers 404 or 409 for a container that has ended, or that is being removed. */
async function unlessEnded(call: Promise<void>): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof EngineError) || (error.status !== 404 && error.status !== 409)) throw error
  }
}

/** Tells containers that somebody waits for from those that are left over: one-off commands, and those that only hold files. */
export interface Waiters {
  /** Calls `use` with the labels of a container that is needed until that settles. `purpose` is the value of `commandLabel`. */
  during<T>(purpose: string, use: (labels: Readonly<Record<string, string>>) => Promise<T>): Promise<T>
  /**
   * Removes the containers that nobody waits for: their server was killed, or their engine was away when they were to be removed.
   */
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

/** The configuration of an image is kept in memory, and its labels are in each list of containers. Usual ones have some kilobytes. */
const mostConfigBytes = 256_000
/** With its layers, of which there are some dozens. */
const mostImageBytes = 4_000_000

/**
 * Returns what the engine knows of an image; null when there is no such image.
 *
 * @param name or its id
 */
export const inspectImage = (engine: Pick<Engine, 'call'>, name: string): Promise<Image | null> =>
  unlessMissing(engine.call<Image>({ method: 'GET', path: ['images', name, 'json'], mostBytes: mostImageBytes }), null)

/**
 * As `inspectImage`, for an image that somebody wants to deploy.
 *
 * @param shown its name for messages
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
