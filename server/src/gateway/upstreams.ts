import { type Connections, createConnections } from './connections.ts'
import { createInFlight, type InFlight } from './in-flight.ts'

/** The running release that answers for an app. */
export interface Upstream {
  readonly deploymentId: string
  readonly host: string
  readonly port: number
}

/** A release as the gateway sees it: its address, its connections and what is going on there. */
export interface Backend {
  readonly upstream: Upstream
  readonly connections: Connections
  readonly running: InFlight
}

export interface Upstreams {
  open(upstream: Upstream): Backend
  /** Takes no new requests from now on; the connections are closed when the running ones have ended. */
  retire(backend: Backend): void
  /** Waits for what is running on a retired upstream; cuts the rest after `timeoutMs`. Resolves at once for an unknown one. */
  drain(upstream: Upstream, options: DrainOptions): Promise<void>
}

export interface DrainOptions {
  readonly timeoutMs: number
  /** Ends the waiting: what is running goes on. */
  readonly signal?: AbortSignal
}

export function isSameUpstream(a: Upstream, b: Upstream): boolean {
  return a.deploymentId === b.deploymentId && a.host === b.host && a.port === b.port
}

export function createUpstreams(): Upstreams {
  const retired = new Set<Backend>()

  return {
    open: (upstream) => ({ upstream, connections: createConnections(upstream), running: createInFlight() }),
    retire(backend) {
      retired.add(backend)
      void backend.running.whenEmpty().then(() => {
        retired.delete(backend)
        backend.connections.close()
      })
    },
    async drain(upstream, options) {
      const draining = [...retired].filter((backend) => isSameUpstream(backend.upstream, upstream))
      await Promise.all(draining.map((backend) => backend.running.finish(options)))
    },
  }
}
