import { connect } from 'node:net'
import {
  type AddressEndpoint,
  type Endpoint,
  keyOfEndpoint,
  type SiteEndpoint,
  type Sticky,
  siteOf,
  type Upstream,
} from '../protocol/calls.ts'
import { type Connections, createConnections } from './connections.ts'
import { createInFlight, type InFlight } from './in-flight.ts'

interface Place {
  readonly endpoint: Endpoint
  readonly running: InFlight
}

/** One instance of a release. It survives a change of the release's other instances. */
export interface Instance extends Place {
  readonly endpoint: AddressEndpoint
  /** `host:port`, for requests that name no host. */
  readonly authority: string
  readonly connections: Connections
  readonly ejection: Ejection
}

export interface Site extends Place {
  readonly endpoint: SiteEndpoint
}

/** Finds instances by the keys in clients' cookies. */
export interface StickyInstances {
  readonly cookie: string
  /** Returns the instance of a key; null for an unknown key or an ejected instance. */
  find(key: string | null): Instance | null
  keyOf(instance: Instance): string | undefined
}

export interface Backend {
  readonly upstream: Upstream
  readonly places: readonly (Instance | Site)[]
  readonly site: Site | null
  readonly size: number
  /**
   * Returns the instance with the fewest requests, in turn among equals. An ejected instance, or `failed`, which has
   * just failed to answer, gets no request while there is another.
   */
  pick(failed?: Instance): Instance
  readonly sticky: StickyInstances | null
  /**
   * Records that an instance refused a connection. If there are others, it is ejected until it accepts a connection.
   */
  refused(instance: Instance): void
  unreadable(): void
  /** Makes `onRefused` report all endpoints again. */
  forgetRefusals(): void
}

/**
 * Creates the backend of an upstream. `onRefused` is called once for each endpoint that refuses or cannot be read.
 *
 * @param before the backend routed so far: instances of the same release are taken over with their connections
 */
export function createBackend(
  upstream: Upstream,
  onRefused: (endpoint: Endpoint) => void,
  before: Backend | null = null,
): Backend {
  const known = instancesOf(before?.upstream.deploymentId === upstream.deploymentId ? before : null)
  const folder = siteOf(upstream)
  const site: Site | null = folder && { endpoint: folder, running: createInFlight() }
  const instances = upstream.endpoints.flatMap((endpoint) =>
    'folder' in endpoint ? [] : [known.get(keyOfEndpoint(endpoint)) ?? createInstance(endpoint)],
  )
  const reported = new Set<Endpoint>()
  let turn = 0

  const report = (endpoint: Endpoint): void => {
    if (reported.has(endpoint)) return
    reported.add(endpoint)
    onRefused(endpoint)
  }

  return {
    upstream,
    places: site === null ? instances : [site],
    site,
    size: instances.length,
    sticky: upstream.sticky === undefined || site !== null ? null : stickyInstances(upstream.sticky, instances),
    pick(failed) {
      const [only] = instances
      if (instances.length === 1) return only as Instance
      const at = leastBusy(instances, turn, failed)
      turn = (at + 1) % instances.length
      return instances[at] as Instance
    },
    refused(instance) {
      if (instances.length > 1) instance.ejection.begin()
      report(instance.endpoint)
    },
    unreadable() {
      if (site !== null) report(site.endpoint)
    },
    forgetRefusals: () => reported.clear(),
  }
}

function stickyInstances({ cookie, keys }: Sticky, instances: readonly Instance[]): StickyInstances {
  const byKey = new Map(instances.map((instance, at) => [keys[at] ?? null, instance]))
  const keysOf = new Map(instances.map((instance, at) => [instance, keys[at]]))
  return {
    cookie,
    find(key) {
      const instance = key === null ? undefined : byKey.get(key)
      return instance === undefined || instance.ejection.isActive() ? null : instance
    },
    keyOf: (instance) => keysOf.get(instance),
  }
}

/**
 * Returns the index of the instance with the fewest requests, the first such from `turn` on; `turn` when all but
 * `failed` are ejected.
 */
function leastBusy(instances: readonly Instance[], turn: number, failed: Instance | undefined): number {
  let [best, fewest] = [turn, Number.POSITIVE_INFINITY]
  for (let step = 0; step < instances.length; step += 1) {
    const at = (turn + step) % instances.length
    const instance = instances[at] as Instance
    const { ejection, running } = instance
    if (instance === failed || ejection.isActive() || running.size() >= fewest) continue
    best = at
    fewest = running.size()
  }
  return best
}

function instancesOf(backend: Backend | null): Map<string, Instance> {
  const instances = (backend?.places ?? []).flatMap((place) => ('connections' in place ? [place] : []))
  return new Map(instances.map((instance) => [keyOfEndpoint(instance.endpoint), instance]))
}

function createInstance(endpoint: AddressEndpoint): Instance {
  return {
    endpoint,
    running: createInFlight(),
    authority: `${endpoint.host}:${endpoint.port}`,
    connections: createConnections(endpoint),
    ejection: createEjection(endpoint),
  }
}

/** Instances and sites without new requests, until their running requests have ended. */
export interface RetiredBackends {
  /**
   * Closes the connections of each place in `backend` that `next` lacks, as soon as its running requests have ended.
   */
  retire(backend: Backend, next: Backend | null): void
  /**
   * Waits for the requests on retired endpoints of a release. Cuts the rest after `timeoutMs`. Resolves at once for
   * unknown endpoints.
   */
  drain(upstream: Upstream, options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<void>
}

interface Retired {
  readonly deploymentId: string
  readonly key: string
  readonly running: InFlight
}

export function createRetiredBackends(): RetiredBackends {
  const retired = new Set<Retired>()

  return {
    retire({ upstream, places }, next) {
      for (const place of places) {
        if (next?.places.includes(place) === true) continue
        const { deploymentId } = upstream
        const entry = { deploymentId, key: keyOfEndpoint(place.endpoint), running: place.running }
        retired.add(entry)
        if ('ejection' in place) place.ejection.end()
        void place.running.whenEmpty().then(() => {
          retired.delete(entry)
          if ('connections' in place) place.connections.close()
        })
      }
    },
    async drain({ deploymentId, endpoints }, options) {
      const keys = new Set(endpoints.map(keyOfEndpoint))
      const draining = [...retired].filter((each) => each.deploymentId === deploymentId && keys.has(each.key))
      await Promise.all(draining.map(({ running }) => running.finish(options)))
    },
  }
}

interface Ejection {
  isActive(): boolean
  begin(): void
  end(): void
}

/** The pause between two attempts to connect, and the time limit of an attempt. */
const checkMs = 250
const timeoutMs = 2_000

/** Checks with separate connections, because a request used as a test might fail. */
function createEjection({ host, port }: AddressEndpoint): Ejection {
  let timer: NodeJS.Timeout | null = null

  const check = (): void => {
    const asking = timer
    const socket = connect({ host, port, timeout: timeoutMs })
    const settle = (takes: boolean): void => {
      socket.destroy()
      if (timer !== asking) return
      timer = takes ? null : setTimeout(check, checkMs).unref()
    }
    socket.once('connect', () => settle(true))
    socket.once('timeout', () => settle(false))
    socket.on('error', () => settle(false))
  }

  return {
    isActive: () => timer !== null,
    begin() {
      timer ??= setTimeout(check, checkMs).unref()
    },
    end() {
      if (timer !== null) clearTimeout(timer)
      timer = null
    },
  }
}
