import type { ReleaseRef } from '../../runtime.ts'
import type { Engine } from '../engine/engine.ts'
import { EngineError, unlessMissing } from '../engine/error.ts'
import { labelFilter, labelsOf, serverLabel } from '../names.ts'
import { inspectImage } from './images.ts'
import type { Container, Image, ListedContainer } from './types.ts'

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
