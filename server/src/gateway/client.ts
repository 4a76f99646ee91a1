import type { DesiredState } from './desired.ts'
import { createEdgeClient, type EdgeGateway } from './edge-client.ts'
import { hostnameOf } from './http1/target.ts'
import {
  type AppTraffic,
  isSameUpstream,
  type OpenApp,
  type PublicAddress,
  type RefusedEndpoint,
  type SiteEndpoint,
  type Upstream,
} from './protocol/calls.ts'
import { type Call, callOverdue, gatewayUnreachable } from './protocol/rpc.ts'

export type {
  AppTraffic,
  Endpoint,
  OpenApp,
  PublicAddress,
  RefusedEndpoint,
  SiteEndpoint,
  Sticky,
  Upstream,
} from './protocol/calls.ts'
export { addTraffic } from './protocol/calls.ts'
export { addCounts, quantileOf } from './protocol/latency.ts'

/** True for a call that failed because the gateway did not answer, although it was restarted. */
export function isUnanswered(error: unknown): boolean {
  return [callOverdue, gatewayUnreachable].includes((error as NodeJS.ErrnoException).code ?? '')
}

export interface DrainOptions {
  /** After this time the remaining requests are cut. */
  readonly timeoutMs: number
  /** Ends the waiting early. The remaining requests continue. */
  readonly signal?: AbortSignal
}

/** Public traffic to apps. The gateway looks a route up for each request, so a switch drops no connection. */
export interface Gateway {
  /**
   * Starts to answer for an app, with 503 until a release is routed. An app that is open at another address moves with
   * its route. Rejects with code `EADDRINUSE` when another program or app has the address.
   */
  open(appId: string, address: PublicAddress): Promise<void>
  /**
   * Sends new requests to `upstream`, or answers them with 503 for `null`. Resolves with the previous upstream after
   * the gateway has confirmed the switch. Rejects for an app that is not open.
   */
  route(appId: string, upstream: Upstream | null): Promise<Upstream | null>
  /** The upstream that the gateway confirmed last; null when there is none. Reads only the client's memory. */
  current(appId: string): Upstream | null
  /**
   * Resolves when `upstream` has no request or upgraded connection left; the rest is cut after `timeoutMs`. An abort of
   * `signal` ends the waiting and cuts nothing. Rejects while `upstream` is still routed.
   */
  drain(upstream: Upstream, options: DrainOptions): Promise<void>
  /**
   * Resolves with the status for a path of a static site, which needs no route: 503 when the gateway cannot read the
   * folder.
   */
  probe(site: SiteEndpoint, path: string): Promise<number>
  /** Stops answering for an app at once. Running requests get `timeoutMs` to finish, by default no time. */
  close(appId: string, options?: { readonly timeoutMs: number }): Promise<void>
  /** Resolves with the requests since the last call, also of apps that were closed since then. */
  takeTraffic(): Promise<AppTraffic[]>
  /**
   * Calls the listener when an endpoint of an upstream refuses a connection, or its folder cannot be read: once for
   * each upstream and endpoint until it is routed again. Returns a function that removes the listener.
   */
  onRefused(listener: (refused: RefusedEndpoint) => void): () => void
  /** Stops everything. Running requests get `timeoutMs` to finish. */
  stop(options: { readonly timeoutMs: number }): Promise<void>
}

/** `listen` opens the port that all apps share. It does nothing when every app has a separate port. */
export interface GatewayClient extends Gateway, EdgeGateway {
  listen(): Promise<void>
  /** The open apps, as the gateway confirmed last. */
  apps(): readonly OpenApp[]
}

export interface ClientOptions {
  readonly call: Call
  readonly onRefused: Gateway['onRefused']
  readonly onUncertified: EdgeGateway['onUncertified']
  /** The desired state starts as the state of the gateway. Calls update it. */
  readonly desired: DesiredState
}

/** Creates the server's side of a gateway, which makes calls and remembers what was confirmed. */
export function createClient({ call, onRefused, onUncertified, desired }: ClientOptions): GatewayClient {
  const openApps = desired.apps
  const edge = createEdgeClient({ call, onUncertified, desired })
  /** The number of times that each app was closed. Confirmations from before a close are not remembered. */
  const closings = new Map<string, number>()
  let lastTraffic: readonly AppTraffic[] = []

  /** Remembers a confirmed result, unless the app was closed during the call. */
  async function remembering<Result>(
    appId: string,
    work: Promise<Result>,
    change: (app: OpenApp | undefined) => OpenApp | undefined,
  ): Promise<Result> {
    const before = closings.get(appId)
    const result = await work
    const app = closings.get(appId) === before ? change(openApps.get(appId)) : undefined
    if (app !== undefined) openApps.set(appId, app)
    return result
  }

  const forget = (appId: string) => {
    openApps.delete(appId)
    desired.names.set(appId, [])
    closings.set(appId, (closings.get(appId) ?? 0) + 1)
  }

  const close: Gateway['close'] = async (appId, { timeoutMs } = { timeoutMs: 0 }) => {
    forget(appId)
    await call('close', { appId, timeoutMs })
  }

  const open: Gateway['open'] = async (appId, address) => {
    await remembering(appId, call('open', { appId, address }), (app) => ({
      appId,
      address,
      upstream: app?.upstream ?? null,
    }))
  }

  const route: Gateway['route'] = async (appId, upstream) => {
    const confirmed = openApps.get(appId)?.upstream ?? null
    const before = await remembering(appId, call('route', { appId, upstream }), (app) => app && { ...app, upstream })
    // The call was repeated after a broken connection, but the first call had taken effect.
    const isRepetition = before !== null && upstream !== null && isSameUpstream(before, upstream)
    return isRepetition ? confirmed : before
  }

  return {
    ...edge,
    listen: async () => void (await call('listen', null)),
    async open(appId, address) {
      const app = openApps.get(appId)
      if (app === undefined || isSameAddress(app.address, address)) return open(appId, address)
      const names = desired.names.of(appId)
      await close(appId)
      await open(appId, address)
      if (names.length > 0) await edge.name(appId, names)
      if (app.upstream !== null) await route(appId, app.upstream)
    },
    route,
    current: (appId) => openApps.get(appId)?.upstream ?? null,
    apps: () => [...openApps.values()],
    drain: async (upstream, { timeoutMs, signal }) => void (await call('drain', { upstream, timeoutMs }, signal)),
    probe: (site, path) => call('probe', { ...site, path }),
    close,
    async takeTraffic() {
      const last = lastTraffic
      lastTraffic = []
      return [...last, ...(await call('takeTraffic', null))]
    },
    onRefused,
    async stop({ timeoutMs }) {
      for (const appId of openApps.keys()) forget(appId)
      edge.forgetAll()
      lastTraffic = await call('stop', { timeoutMs })
    },
  }
}

function isSameAddress(a: PublicAddress, b: PublicAddress): boolean {
  return 'port' in a
    ? 'port' in b && a.port === b.port
    : 'hostname' in b && hostnameOf(a.hostname) === hostnameOf(b.hostname)
}

export { deploymentHeader } from './http1/raw-headers.ts'
