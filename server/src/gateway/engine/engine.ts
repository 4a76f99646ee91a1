import type { Logger } from 'pino'
import {
  type AppTraffic,
  type Calls,
  type FromEngine,
  isSameUpstream,
  type PublicAddress,
} from '../control/protocol.ts'
import { createProxy } from '../exchange/proxy.ts'
import { takeTraffic } from '../exchange/traffic.ts'
import { answerUnknownHost } from '../http1/answers.ts'
import { parseTarget } from '../http1/target.ts'
import { createRetiredBackends, type RetiredBackends } from '../upstream/backend.ts'
import { type App, type AppTable, createApp, createAppTable, routeApp } from './app-table.ts'
import { createListener } from './listener.ts'

/** Tells apps apart: each by a port of its own, or all behind one port by their host names. */
export type AppAddresses =
  | { readonly mode: 'ports' }
  | {
      readonly mode: 'hostnames'
      readonly port: number
      /** The scheme that the public uses: `https` behind a proxy that ends TLS. */
      readonly scheme: 'http' | 'https'
    }

export interface EngineOptions {
  readonly logger: Logger
  /** The address that the gateway listens on. */
  readonly host: string
  readonly apps: AppAddresses
  /** True for peers whose X-Forwarded-* headers are believed. */
  readonly isTrustedProxy: (address: string) => boolean
}

/** Answers one call of each name. `signal` aborts when the client cancels the call. */
export type Engine = {
  readonly [Name in keyof Calls]: (
    parameters: Calls[Name]['parameters'],
    signal: AbortSignal,
  ) => Promise<Calls[Name]['result']>
}

/** Creates the engine: it listens, routes, counts and drains. `post` sends notifications to the client. */
export function createEngine(options: EngineOptions, post: (message: FromEngine) => void): Engine {
  const { logger, host, apps: addresses } = options
  const scheme = addresses.mode === 'hostnames' ? addresses.scheme : 'http'
  const proxy = createProxy({ logger, scheme, isTrustedProxy: options.isTrustedProxy })
  const table = createAppTable()
  const retired = createRetiredBackends()
  const closedTraffic: AppTraffic[] = []

  const shared = createListener({
    logger,
    handle: (req, res, upgradeHead) => {
      const authority = parseTarget(req.url ?? '')?.authority ?? req.headers.host ?? ''
      const app = table.byAuthority(authority)
      if (app === undefined) answerUnknownHost(res)
      else proxy(app, req, res, upgradeHead)
    },
  })

  const close = async (appId: string, timeoutMs: number): Promise<void> => {
    const app = table.get(appId)
    if (app === undefined) return
    table.remove(appId)
    stopRouting(app, retired)
    post({ type: 'routed', appId, upstream: null })
    const finish = () => app.running.finish({ timeoutMs })
    await (app.listener === null ? finish() : app.listener.close(finish))
    closedTraffic.push(...takeTraffic(appId, app.traffic))
  }

  return {
    async listen() {
      if (addresses.mode === 'hostnames') await shared.listen({ host, port: addresses.port })
      return null
    },

    async open({ appId, address }) {
      if (table.get(appId) !== undefined) return null
      assertMode(addresses, address)
      await openApp(table, appId, createApp(address, proxy, logger), host)
      return null
    },

    isFree: ({ address }) => isFree(table, address, host, logger),

    async route({ appId, upstream }) {
      const app = table.get(appId)
      if (app === undefined) throw new Error(`${appId} is not open`)
      const onRefused = (refused: Extract<FromEngine, { type: 'refused' }>) => post(refused)
      const before = routeApp(app, appId, upstream, {
        retired,
        onRefused: (refused) => onRefused({ type: 'refused', ...refused }),
      })
      post({ type: 'routed', appId, upstream })
      return before
    },

    async drain({ upstream, timeoutMs }, signal) {
      for (const [, { backend }] of table.all()) {
        if (backend !== null && isSameUpstream(backend.upstream, upstream)) {
          throw new Error(`${upstream.deploymentId} still gets requests: route the app elsewhere first`)
        }
      }
      await retired.drain(upstream, { timeoutMs, signal })
      return null
    },

    async close({ appId, timeoutMs }) {
      await close(appId, timeoutMs)
      return null
    },

    async takeTraffic() {
      const open = [...table.all()].flatMap(([appId, { traffic }]) => takeTraffic(appId, traffic))
      return [...closedTraffic.splice(0), ...open]
    },

    async stop({ timeoutMs }) {
      const all = [...table.all()]
      for (const [, app] of all) stopRouting(app, retired)
      const connections = shared.close(async () => {
        await Promise.all(all.map(([, app]) => app.running.finish({ timeoutMs })))
      })
      await Promise.all([connections, ...all.map(([appId]) => close(appId, timeoutMs))])
      return null
    },
  }
}

function assertMode(addresses: AppAddresses, address: PublicAddress): void {
  if ('port' in address === (addresses.mode === 'ports')) return
  throw new Error(`apps are told apart by ${addresses.mode} here`)
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

/** True when nobody else holds the address. Listens on a port for a moment to find out. */
async function isFree(table: AppTable, address: PublicAddress, host: string, logger: Logger): Promise<boolean> {
  if ('hostname' in address) return !table.hasHostname(address.hostname)
  const listener = createListener({ logger, handle: (_, res) => answerUnknownHost(res) })
  try {
    await listener.listen({ host, port: address.port })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
    throw error
  }
  await listener.close(async () => undefined)
  return true
}

function stopRouting(app: App, retired: RetiredBackends): void {
  app.closing = true
  if (app.backend !== null) retired.retire(app.backend)
  app.backend = null
}
