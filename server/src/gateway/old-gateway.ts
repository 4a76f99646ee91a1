import type { Logger } from 'pino'
import { answerUnknownHost } from './answers.ts'
import type { Route } from './exchange.ts'
import { createInFlight } from './in-flight.ts'
import { createListener, type Listener } from './listeners.ts'
import { createProxy } from './proxy.ts'
import { hostnameOf, parseTarget } from './target.ts'
import { type AppTraffic, takeTraffic } from './traffic.ts'
import { type Backend, createUpstreams, type DrainOptions, isSameUpstream, type Upstream } from './upstreams.ts'

export type { AppTraffic } from './traffic.ts'
export type { Upstream } from './upstreams.ts'

/** Where an app is reached from outside. Exactly one of the two forms, decided by the operator's configuration. */
export type PublicAddress = { readonly port: number } | { readonly hostname: string }

/**
 * Public traffic to apps. Routes are looked up for each request, so a switch is one assignment and
 * no connection is dropped by it.
 */
export interface Gateway {
  /**
   * Starts to answer for an app: 503 until a release is routed. Does nothing for one that is open already.
   * Rejects with `code: 'EADDRINUSE'` when the app's port is taken by somebody else.
   */
  open(appId: string, address: PublicAddress): Promise<void>
  /** Sends new requests to `upstream` (or answers 503 for `null`) from now on. Returns the upstream that answered before. */
  route(appId: string, upstream: Upstream | null): Upstream | null
  /** The upstream that answers now. */
  current(appId: string): Upstream | null
  /**
   * Resolves when no request or upgraded connection is left on `upstream`; after `timeoutMs` the rest is cut. When
   * `signal` aborts it resolves at once, and nothing is cut. Rejects while `upstream` is still routed.
   */
  drain(upstream: Upstream, options: DrainOptions): Promise<void>
  /** Stops answering for an app at once; running requests get `timeoutMs` to finish, none without it. */
  close(appId: string, options?: { timeoutMs: number }): Promise<void>
  /** The requests since the last call, of apps that had any; also of those that were closed since. */
  takeTraffic(): AppTraffic[]
  /** Stops everything; running requests get `timeoutMs` to finish. */
  stop(options: { timeoutMs: number }): Promise<void>
}

/** Where apps listen: each on a port of its own, or all behind one port and told apart by their host names. */
export type AppAddresses =
  | { readonly mode: 'ports' }
  | {
      readonly mode: 'hostnames'
      readonly port: number
      /** What the public sees: `https` behind a proxy that ends TLS. */
      readonly scheme: 'http' | 'https'
    }

interface App extends Route {
  readonly address: PublicAddress
  /** Its own port's, if it has one. */
  readonly listener: Listener | null
  backend: Backend | null
  closing: boolean
}

/**
 * The gateway on the address `host`. `isTrustedProxy` tells whether what a peer says in X-Forwarded-* is believed.
 * `listen()` opens the shared port; where every app has its own, there is nothing to open.
 */
export function createGateway({
  logger,
  host,
  apps: addresses,
  isTrustedProxy,
}: {
  logger: Logger
  host: string
  apps: AppAddresses
  isTrustedProxy: (address: string) => boolean
}): Gateway & { listen(): Promise<void> } {
  const apps = new Map<string, App>()
  const byHostname = new Map<string, App>()
  const closedTraffic: AppTraffic[] = []
  const upstreams = createUpstreams()
  const scheme = addresses.mode === 'hostnames' ? addresses.scheme : 'http'
  const proxy = createProxy({ logger, scheme, isTrustedProxy })

  const shared = createListener({
    logger,
    handle: (req, res, upgradeHead) => {
      const authority = parseTarget(req.url ?? '')?.authority ?? req.headers.host ?? ''
      const app = byHostname.get(hostnameOf(authority))
      if (app === undefined) answerUnknownHost(res)
      else proxy(app, req, res, upgradeHead)
    },
  })

  function createApp(address: PublicAddress): App {
    const listener =
      'port' in address
        ? createListener({ logger, handle: (req, res, upgradeHead) => proxy(app, req, res, upgradeHead) })
        : null
    const app: App = {
      address,
      listener,
      running: createInFlight(),
      traffic: { requests: 0, errors: 0 },
      backend: null,
      closing: false,
    }
    return app
  }

  async function open(appId: string, address: PublicAddress): Promise<void> {
    if (apps.has(appId)) return
    if ('port' in address !== (addresses.mode === 'ports')) {
      throw new Error(`apps are told apart by ${addresses.mode} here`)
    }
    const app = createApp(address)
    if ('hostname' in address) {
      const hostname = hostnameOf(address.hostname)
      if (byHostname.has(hostname)) {
        throw Object.assign(new Error(`${hostname} belongs to another app`), { code: 'EADDRINUSE' })
      }
      byHostname.set(hostname, app)
      apps.set(appId, app)
      return
    }
    apps.set(appId, app)
    try {
      await app.listener?.listen({ host, port: address.port })
    } catch (error) {
      apps.delete(appId)
      throw error
    }
  }

  function route(appId: string, upstream: Upstream | null): Upstream | null {
    const app = apps.get(appId)
    if (app === undefined) throw new Error(`${appId} is not open`)
    const before = app.backend
    if (before !== null && upstream !== null && isSameUpstream(before.upstream, upstream)) return before.upstream
    app.backend = upstream && upstreams.open(upstream)
    if (before !== null) upstreams.retire(before)
    return before?.upstream ?? null
  }

  async function close(appId: string, options: { timeoutMs: number } = { timeoutMs: 0 }): Promise<void> {
    const app = apps.get(appId)
    if (app === undefined) return
    apps.delete(appId)
    if ('hostname' in app.address) byHostname.delete(hostnameOf(app.address.hostname))
    refuse(app)
    const finish = () => app.running.finish(options)
    await (app.listener === null ? finish() : app.listener.close(finish))
    closedTraffic.push(...takeTraffic(appId, app.traffic))
  }

  function refuse(app: App): void {
    app.closing = true
    if (app.backend !== null) upstreams.retire(app.backend)
    app.backend = null
  }

  async function stop(options: { timeoutMs: number }): Promise<void> {
    const all = [...apps.values()]
    for (const app of all) refuse(app)
    const connections = shared.close(async () => {
      await Promise.all(all.map((app) => app.running.finish(options)))
    })
    await Promise.all([connections, ...[...apps.keys()].map((appId) => close(appId, options))])
  }

  async function drain(upstream: Upstream, options: DrainOptions): Promise<void> {
    for (const { backend } of apps.values()) {
      if (backend !== null && isSameUpstream(backend.upstream, upstream)) {
        throw new Error(`${upstream.deploymentId} still gets requests: route the app elsewhere first`)
      }
    }
    await upstreams.drain(upstream, options)
  }

  return {
    open,
    route,
    close,
    drain,
    stop,
    takeTraffic: () => [
      ...closedTraffic.splice(0),
      ...[...apps].flatMap(([appId, { traffic }]) => takeTraffic(appId, traffic)),
    ],
    current: (appId) => apps.get(appId)?.backend?.upstream ?? null,
    async listen() {
      if (addresses.mode === 'hostnames') await shared.listen({ host, port: addresses.port })
    },
  }
}
