import type { Gate } from '../../platform/gates.ts'
import { hostnameOf } from '../http1/target.ts'
import {
  type Endpoint,
  isSameUpstream,
  type PublicAddress,
  type RefusedEndpoint,
  type Upstream,
} from '../protocol/calls.ts'
import type { Log } from '../protocol/log.ts'
import { type Backend, createBackend, type RetiredBackends } from '../proxy/backend.ts'
import type { InFlight } from '../proxy/in-flight.ts'
import type { AppProxy } from '../proxy/proxy.ts'
import { createTraffic, type Route } from '../proxy/route.ts'
import { createListener, type Listener, type RequestHandler, type Share } from './listener.ts'

export interface App extends Route {
  readonly listener: Listener | null
  backend: Backend | null
  closing: boolean
  leaving: boolean
}

export function createApp(
  address: PublicAddress,
  parts: {
    readonly proxy: AppProxy
    readonly log: Log
    readonly newGate: () => Gate
    readonly running: InFlight
    readonly newShare: () => Share | undefined
  },
): App {
  const { proxy, log, newGate, running, newShare } = parts
  const handle: RequestHandler = (req, res, upgradeHead) => proxy(app, req, res, upgradeHead)
  const listener = 'port' in address ? createListener({ log, gate: newGate(), share: newShare(), handle }) : null
  const app: App = {
    address,
    listener,
    running,
    traffic: createTraffic(),
    backend: null,
    closing: false,
    leaving: false,
  }
  return app
}

/**
 * Sends new requests of an app to an upstream from now on. Returns the previous upstream. A route to the current
 * upstream changes nothing, except that its refusals are reported again.
 */
export function routeApp(
  app: App,
  appId: string,
  upstream: Upstream | null,
  { retired, onRefused }: { readonly retired: RetiredBackends; readonly onRefused: (refused: RefusedEndpoint) => void },
): Upstream | null {
  const before = app.backend
  if (before !== null && upstream !== null && isSameUpstream(before.upstream, upstream)) {
    before.forgetRefusals()
    return before.upstream
  }
  app.backend =
    upstream &&
    backendOf(app, upstream, (endpoint) => onRefused({ appId, deploymentId: upstream.deploymentId, endpoint }))
  if (before !== null) retired.retire(before, app.backend)
  return before?.upstream ?? null
}

/** Refusals count only while the backend is routed: later refusals are expected. */
function backendOf(app: App, upstream: Upstream, onRefused: (endpoint: Endpoint) => void): Backend {
  const backend = createBackend(
    upstream,
    (endpoint) => {
      if (app.backend === backend) onRefused(endpoint)
    },
    app.backend,
  )
  return backend
}

export interface AppTable {
  get(appId: string): App | undefined
  all(): Iterable<[string, App]>
  byAuthority(authority: string): App | undefined
  /** Throws with code `EADDRINUSE` when another app has the host name. */
  add(appId: string, app: App): void
  remove(appId: string): void
}

export function createAppTable(): AppTable {
  const apps = new Map<string, App>()
  const byHostname = new Map<string, App>()
  return {
    get: (appId) => apps.get(appId),
    all: () => apps,
    byAuthority: (authority) => byHostname.get(hostnameOf(authority)),
    add(appId, app) {
      if ('hostname' in app.address) {
        const hostname = hostnameOf(app.address.hostname)
        if (byHostname.has(hostname)) {
          throw Object.assign(new Error(`${hostname} belongs to another app`), { code: 'EADDRINUSE' })
        }
        byHostname.set(hostname, app)
      }
      apps.set(appId, app)
    },
    remove(appId) {
      const app = apps.get(appId)
      if (app !== undefined && 'hostname' in app.address) byHostname.delete(hostnameOf(app.address.hostname))
      apps.delete(appId)
    },
  }
}
