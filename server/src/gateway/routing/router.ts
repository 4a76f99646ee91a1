import type { Server as NetServer, Socket } from 'node:net'
import { createGates } from '../../platform/gates.ts'
import { descriptorLimit } from '../../platform/processes/stat.ts'
import {
  type AppTraffic,
  type Calls,
  keyOfEndpoint,
  type OpenApp,
  type PublicAddress,
  type RefusedEndpoint,
} from '../protocol/calls.ts'
import type { EdgeOptions } from '../protocol/edge-calls.ts'
import type { Log } from '../protocol/log.ts'
import type { AppAddresses, Entrance } from '../protocol/program.ts'
import type { Handlers } from '../protocol/rpc.ts'
import { createRetiredBackends, type RetiredBackends } from '../proxy/backend.ts'
import { createInFlight, type InFlight } from '../proxy/in-flight.ts'
import { createProxy, edgeAlone, peersByAddress } from '../proxy/proxy.ts'
import { takeTraffic } from '../proxy/route.ts'
import { probeSite } from '../proxy/site.ts'
import { type App, type AppTable, createApp, createAppTable, routeApp } from './apps.ts'
import { createEdge, type Edge } from './edge.ts'
import { createHostHandler } from './edge-requests.ts'
import { createListener, type Listener, type Share } from './listener.ts'

export interface EngineOptions {
  readonly log: Log
  readonly host: string
  readonly apps: AppAddresses
  readonly isTrustedProxy: (address: string) => boolean
  readonly onRefused: (refused: RefusedEndpoint) => void
  /** Gives a listener's connections to other processes. Absent when this process answers all. */
  readonly newShare?: (entrance: Entrance) => Share
  readonly edge?: EdgeOptions | null
  readonly onEdgeChanged?: () => void
}

/** Listens, routes, counts and drains, in one process of a gateway. */
export interface Engine {
  readonly handlers: Handlers<NetServer>
  apps(): OpenApp[]
  isOpen(appId: string): boolean
  readonly edge: Edge
  take(entrance: Entrance, socket: Socket): void
  /** The listening socket of an app; null when the app has no port. */
  socketOf(appId: string): NetServer | null
  sharedSocket(): NetServer | null
}

export function createEngine(options: EngineOptions): Engine {
  const { log, host, apps: addresses } = options
  const scheme = addresses.mode === 'hostnames' ? addresses.scheme : 'http'
  const most = mostConnections()
  const requests = createRequests(most)
  const { hasRoom } = requests
  const peerOf = peersByAddress({ scheme, isTrustedProxy: options.isTrustedProxy })
  // The gate of its port limits an app with its own port.
  const proxy = createProxy({ log, peerOf, ...(addresses.mode === 'hostnames' && { hasRoom }) })
  const table = createAppTable()
  const retired = createRetiredBackends()
  const closedTraffic: AppTraffic[] = []

  // Without an edge, the shared port is the only entrance and need not leave half of the connections to others.
  const newGate = createGates(most * (addresses.mode === 'hostnames' && !options.edge ? 2 : 1))
  const shared = createListener({
    log,
    gate: newGate(),
    share: options.newShare?.('shared'),
    handle: createHostHandler({ find: (authority) => edge.findAtPort(authority), proxy, scheme }),
  })
  const edge = createEdge({
    options: options.edge ?? null,
    log,
    table,
    proxy: createProxy({ log, peerOf: edgeAlone, hasRoom }),
    gate: newGate({ shared: true }),
    share: options.newShare?.('edge'),
    onChanged: options.onEdgeChanged ?? (() => {}),
  })
  const listeners = edge.listener === null ? [shared] : [shared, edge.listener]

  const newApp = (appId: string, address: PublicAddress) =>
    createApp(address, {
      proxy,
      log,
      newGate,
      running: requests.newList(),
      newShare: () => options.newShare?.({ appId }),
    })
  const routing = { retired, onRefused: options.onRefused }
  const closing = createClosing({ table, retired, closedTraffic, onClosed: edge.forget })

  return {
    handlers: {
      ...edge.handlers,

      async listen() {
        if (addresses.mode === 'hostnames' && shared.socket() === null)
          await shared.listen({ host, port: addresses.port })
        return null
      },

      async open({ appId, address }) {
        if (table.get(appId) !== undefined) return null
        assertMode(addresses, address)
        await openApp(table, appId, newApp(appId, address), host)
        return null
      },

      async adopt({ app }, _, socket) {
        // In one turn of the event loop, because a connection may be accepted right after it.
        if (app === null) {
          if (socket !== undefined) shared.adopt(socket)
          return null
        }
        const adopted = table.get(app.appId) ?? newApp(app.appId, app.address)
        if (table.get(app.appId) === undefined) table.add(app.appId, adopted)
        routeApp(adopted, app.appId, app.upstream, routing)
        if (socket !== undefined) adopted.listener?.adopt(socket)
        return null
      },

      async route({ appId, upstream }) {
        const app = table.get(appId)
        if (app === undefined) throw new Error(`${appId} is not open`)
        return routeApp(app, appId, upstream, routing)
      },

      async drain({ upstream, timeoutMs }, signal) {
        assertUnrouted(table, upstream)
        await retired.drain(upstream, { timeoutMs, signal })
        return null
      },

      probe: ({ path, ...site }) => probeSite(site, path),

      async close({ appId, timeoutMs }) {
        await closing.close(appId, timeoutMs)
        return null
      },

      ping: async () => 0,

      async takeTraffic() {
        const open = [...table.all()].flatMap(([appId, { traffic }]) => takeTraffic(appId, traffic))
        return [...closedTraffic.splice(0), ...open]
      },

      async stop({ timeoutMs }) {
        await closing.closeAll(listeners, timeoutMs)
        return closedTraffic.splice(0)
      },

      async retire({ timeoutMs }) {
        for (const [, app] of table.all()) app.leaving = true
        const ofApps = [...table.all()].map(([, { listener }]) => listener)
        await Promise.all([...listeners, ...ofApps].map((listener) => listener?.retire(timeoutMs)))
        return null
      },
    },
    apps: () => [...table.all()].map(([appId, app]) => stateOf(appId, app)),
    edge,
    take(entrance, socket) {
      const ofApp = typeof entrance === 'object' && table.get(entrance.appId)?.listener
      const listener = entrance === 'shared' ? shared : entrance === 'edge' ? edge.listener : ofApp
      // The app may have been closed in the meantime.
      if (listener) listener.take(socket)
      else socket.destroy()
    },
    isOpen: (appId) => table.get(appId) !== undefined,
    socketOf: (appId) => table.get(appId)?.listener?.socket() ?? null,
    sharedSocket: shared.socket,
  }
}

function stateOf(appId: string, { address, backend }: App): OpenApp {
  return { appId, address, upstream: backend?.upstream ?? null }
}

function assertMode(addresses: AppAddresses, address: PublicAddress): void {
  if ('port' in address === (addresses.mode === 'ports')) return
  throw new Error(`apps are told apart by ${addresses.mode} here`)
}

function assertUnrouted(table: AppTable, upstream: Calls['drain']['parameters']['upstream']): void {
  for (const [, { backend }] of table.all()) {
    if (backend?.upstream.deploymentId !== upstream.deploymentId) continue
    const routed = new Set(backend.upstream.endpoints.map(keyOfEndpoint))
    if (upstream.endpoints.some((endpoint) => routed.has(keyOfEndpoint(endpoint)))) {
      throw new Error(`${upstream.deploymentId} still gets requests: route the app elsewhere first`)
    }
  }
}

async function openApp(table: AppTable, appId: string, app: App, host: string): Promise<void> {
  table.add(appId, app)
  if (!('port' in app.address)) return
  try {
    await app.listener?.listen({ host, port: app.address.port })
  } catch (error) {
    table.remove(appId)
    throw error
  }
}

interface Closing {
  /** Stops answering for an app at once; running requests get `timeoutMs` to finish. */
  close(appId: string, timeoutMs: number): Promise<void>
  closeAll(listeners: readonly Listener[], timeoutMs: number): Promise<void>
}

/** Creates the functions that close apps. The last counts of a closed app go to `closedTraffic`. */
function createClosing({
  table,
  retired,
  closedTraffic,
  onClosed,
}: {
  readonly table: AppTable
  readonly retired: RetiredBackends
  readonly closedTraffic: AppTraffic[]
  readonly onClosed: (appId: string) => void
}): Closing {
  const close: Closing['close'] = async (appId, timeoutMs) => {
    const app = table.get(appId)
    if (app === undefined) return
    table.remove(appId)
    onClosed(appId)
    stopRouting(app, retired)
    const finish = () => app.running.finish({ timeoutMs })
    await (app.listener === null ? finish() : app.listener.close(finish))
    closedTraffic.push(...takeTraffic(appId, app.traffic))
  }
  return {
    close,
    async closeAll(listeners, timeoutMs) {
      const all = [...table.all()]
      for (const [, app] of all) stopRouting(app, retired)
      const finish = async () => {
        await Promise.all(all.map(([, app]) => app.running.finish({ timeoutMs })))
      }
      const closed = listeners.map((listener) => listener.close(finish))
      await Promise.all([...closed, ...all.map(([appId]) => close(appId, timeoutMs))])
    },
  }
}

function stopRouting(app: App, retired: RetiredBackends): void {
  app.closing = true
  if (app.backend !== null) retired.retire(app.backend, null)
  app.backend = null
}

/** Descriptors that stay free for calls of the server, logs, listening sockets and Node itself. */
const keptDescriptors = 256

/**
 * Returns how many client connections this process can have. Each needs one descriptor, and a second one for the
 * connection to its app. Without free descriptors a process could neither switch an app nor answer requests.
 */
function mostConnections(): number {
  return Math.max(16, Math.floor((descriptorLimit() - keptDescriptors) / 2))
}

/** The running requests of all apps in a process with at most `most` connections. */
export interface Requests {
  newList(): InFlight
  /**
   * False for an app with as many requests as connections are left for other apps: an app that never answers takes at
   * most half of all connections, as do the clients of an app with its own port.
   */
  hasRoom(list: InFlight): boolean
}

function createRequests(most: number): Requests {
  const total = { count: 0 }
  return {
    newList: () => createInFlight(total),
    hasRoom: (list) => list.size() < most - total.count,
  }
}
