import { type Endpoint, isSameUpstream, type Upstream } from '../control/protocol.ts'
import { type Connections, createConnections } from './connections.ts'
import { createInFlight, type InFlight } from './in-flight.ts'

/** One instance of a release as the gateway sees it. */
export interface Instance {
  readonly endpoint: Endpoint
  /** `host:port`, for requests that name no host. */
  readonly authority: string
  readonly connections: Connections
}

/** A release as the gateway sees it: its instances and the requests that run there. */
export interface Backend {
  readonly upstream: Upstream
  readonly running: InFlight
  /** The number of instances. */
  readonly size: number
  /** Returns the instance for the next request, in turn. Skips those that refused a connection just now, if it can. */
  pick(): Instance
  /** Notes that an instance has refused a connection. */
  refused(instance: Instance): void
  /** Makes `onRefused` report endpoints again that were reported before. */
  forgetRefusals(): void
  /** Closes the unused connections, and those in use as soon as they are free. */
  close(): void
}

/** An instance that refused a connection gets no request for this time, while there is another one. */
const AVOIDED_MS = 1_000

/** Creates the backend of an upstream. `onRefused` is called for the first refused connection of each endpoint. */
export function createBackend(upstream: Upstream, onRefused: (endpoint: Endpoint) => void): Backend {
  const instances = upstream.endpoints.map(createInstance)
  const avoidedUntil = new Map<Instance, number>()
  const reported = new Set<Instance>()
  let turn = 0

  return {
    upstream,
    running: createInFlight(),
    size: instances.length,
    pick() {
      const next = instances[turn] as Instance
      if (instances.length === 1) return next
      turn = (turn + 1) % instances.length
      return avoidedUntil.size === 0 ? next : passOver(next)
    },
    refused(instance) {
      if (instances.length > 1) avoidedUntil.set(instance, performance.now() + AVOIDED_MS)
      if (reported.has(instance)) return
      reported.add(instance)
      onRefused(instance.endpoint)
    },
    forgetRefusals: () => reported.clear(),
    close() {
      for (const { connections } of instances) connections.close()
    },
  }

  /** Returns the first instance, from `next` on, that is not avoided; `next` itself when all are. */
  function passOver(next: Instance): Instance {
    const now = performance.now()
    for (const [instance, until] of avoidedUntil) if (until <= now) avoidedUntil.delete(instance)
    const from = instances.indexOf(next)
    for (let i = 0; i < instances.length; i += 1) {
      const candidate = instances[(from + i) % instances.length] as Instance
      if (avoidedUntil.has(candidate)) continue
      turn = (from + i + 1) % instances.length
      return candidate
    }
    return next
  }
}

function createInstance(endpoint: Endpoint): Instance {
  return { endpoint, authority: `${endpoint.host}:${endpoint.port}`, connections: createConnections(endpoint) }
}

/** The backends that take no new requests, until their running ones have ended. */
export interface RetiredBackends {
  /** Closes the connections of a backend when its running requests have ended. */
  retire(backend: Backend): void
  /** Waits for the requests on a retired upstream; cuts the rest after `timeoutMs`. Resolves at once for an unknown one. */
  drain(upstream: Upstream, options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<void>
}

export function createRetiredBackends(): RetiredBackends {
  const retired = new Set<Backend>()

  return {
    retire(backend) {
      retired.add(backend)
      void backend.running.whenEmpty().then(() => {
        retired.delete(backend)
        backend.close()
      })
    },
    async drain(upstream, options) {
      const draining = [...retired].filter((backend) => isSameUpstream(backend.upstream, upstream))
      await Promise.all(draining.map(({ running }) => running.finish(options)))
    },
  }
}
