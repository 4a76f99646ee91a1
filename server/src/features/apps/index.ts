import { notFound } from '../../contract/errors.ts'
import type { AppTraffic, Gateway } from '../../gateway/client.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Config } from '../../platform/config.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import { isPortFree } from '../../platform/ports.ts'
import { type AppHostname, appAt, hostnamesOf, publicUrl } from './addresses.ts'
import { type App, type AppStore, createAppStore } from './apps.ts'
import { createListening, type Listening } from './listening.ts'
import { createMetrics, type InstanceUsage } from './metrics/collect.ts'
import { createDemand } from './metrics/demand.ts'
import { latestUsage, type MetricsReads, metricsHandlers } from './metrics/read.ts'
import { createTraffic, type Traffic } from './traffic.ts'

/** Rare enough that two hundred idle apps cost almost nothing. */
const measureEveryMs = 30_000
const writeEveryMs = 10_000

export interface AppsParts {
  readonly database: Database
  readonly config: Pick<Config, 'apps' | 'host'>
  readonly logger: Logger
  readonly releasesSince: MetricsReads['releasesSince']
}

export interface Apps {
  readonly handlers: HandlersOf<'metrics'>
  readonly store: AppStore
  /** Throws `not_found` unless the project has the app. Inside a transaction, keeps the app from being deleted. */
  assertApp(on: Database | Transaction, projectId: string, appId: string): Promise<void>
  readonly urlOf: (app: Pick<App, 'address'>) => string
  /** Reads the latest measurement of an app's instances, which may include instances of other deployments. */
  readonly latestUsage: typeof latestUsage
  /** Returns the last 24 hours of a project's apps, oldest first; the last hour is incomplete. */
  readonly trafficOf: Traffic['ofProject']
  /**
   * Starts to write metrics. Must be called before the gateway is created, so that its last counts are also written.
   */
  lead(leader: Pick<LeaderParts, 'database' | 'stack'>): AppsWork
}

export interface AppsWork {
  readonly store: AppStore
  readonly urlOf: Apps['urlOf']
  /** Gives new addresses to apps after a change of the settings for addresses. */
  move(): Promise<void>
  listen(gateway: Pick<Gateway, 'open' | 'close'>, publish: (port: number) => Promise<void>): Listening
  /** Adds the gateway's counts to metrics, demand and traffic. If traffic cannot be written, the next call retries. */
  countTraffic(counted: readonly AppTraffic[]): Promise<void>
  /** True while apps get so many requests that builds must leave a core to them. */
  isDemandHigh(): boolean
  noteRestart(appId: string): void
  startMeasuring(measure: (signal: AbortSignal) => Promise<readonly InstanceUsage[]>): void
  hostnamesOf(some: { readonly ids: readonly string[]; readonly hostnames: readonly string[] }): Promise<AppHostname[]>
  findAt(hostname: string): Promise<AppHostname | undefined>
  forgetTraffic(): Promise<void>
}

export function createApps(parts: AppsParts): Apps {
  const { database, config, releasesSince } = parts
  const store = storeOn(database, config)
  const urlOf: Apps['urlOf'] = ({ address }) => publicUrl(address, config.apps)
  return {
    handlers: metricsHandlers({ database, findApp: store.find, releasesSince }),
    store,
    async assertApp(on, projectId, appId) {
      if (on.isTransaction) await store.keep(on as Transaction, projectId, appId)
      else if ((await store.find(on, projectId, appId)) === undefined) throw notFound()
    },
    urlOf,
    latestUsage,
    trafficOf: createTraffic({ database }).ofProject,
    lead: (leader) => lead(parts, urlOf, leader),
  }
}

function storeOn(database: Database, config: AppsParts['config']): AppStore {
  return createAppStore({
    database,
    isPortFree: (port) => isPortFree(port, config.host),
    config: config.apps,
  })
}

function lead(
  { config, logger }: AppsParts,
  urlOf: Apps['urlOf'],
  { database, stack }: Pick<LeaderParts, 'database' | 'stack'>,
): AppsWork {
  const store = storeOn(database, config)
  const traffic = createTraffic({ database })
  const demand = createDemand()
  const metrics = createMetrics({ database })
  const writing = startPeriodic({ name: 'writing metrics', everyMs: writeEveryMs, work: metrics.write, logger })
  stack.defer('metrics', async () => {
    await writing.stop()
    await metrics.write()
  })
  return {
    store,
    urlOf,
    async move() {
      const moved = await store.move()
      if (moved > 0) logger.warn({ apps: moved }, 'apps have new addresses, because the address settings were changed')
    },
    listen(gateway, publish) {
      const addresses: Pick<Gateway, 'open' | 'close'> = {
        async open(appId, address) {
          await gateway.open(appId, address)
          if ('port' in address) await publish(address.port)
        },
        close: gateway.close,
      }
      return createListening({ gateway: addresses, logger })
    },
    async countTraffic(counted) {
      metrics.count(counted)
      demand.count(counted)
      await traffic.add(counted)
    },
    isDemandHigh: demand.isHigh,
    noteRestart: metrics.noteRestart,
    startMeasuring(measure) {
      const work = async (signal: AbortSignal) => metrics.measure(await measure(signal))
      const measuring = startPeriodic({ name: 'measuring apps', everyMs: measureEveryMs, work, logger })
      stack.defer('measuring apps', async () => {
        await measuring.stop()
        await work(new AbortController().signal)
      })
    },
    hostnamesOf: (some) => hostnamesOf(database, some),
    findAt: (hostname) => appAt(database, hostname),
    forgetTraffic: traffic.forget,
  }
}
