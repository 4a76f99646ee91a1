import { createHash, createHmac } from 'node:crypto'
import type { Gateway, Sticky, Upstream } from '../../gateway/client.ts'
import type { KeyedLock } from '../../platform/keyed-lock.ts'
import type { Endpoint } from '../../runtimes/runtime.ts'
import { web } from './process-types.ts'
import type { DeploymentRow } from './tables.ts'

/** How long an instance may take to end after the request to end, in milliseconds. */
export const stopGraceMs = 10_000

/** Changes of an app's route. One change runs at a time for each app, after a deployment's lock and never before it. */
export interface Routes {
  /**
   * Takes the app's address from a release, if the release has it and `mayUnroute`, called under the lock, allows it.
   * Returns the upstream that had the address; null when nothing changed.
   */
  unroute(release: ReleaseOfApp, mayUnroute?: () => Promise<boolean>): Promise<Upstream | null>
  /** Gives the app's address to an upstream if `mayRoute` allows it under the lock; returns its result. */
  route(appId: string, upstream: Upstream, mayRoute: () => Promise<boolean>): Promise<boolean>
  /**
   * Takes the app's address from a release, if it has it, and lets the release finish its requests. Ends early, without
   * an error, when `signal` aborts.
   *
   * @param replaced the upstream of a release that has already lost the address to another release
   * @returns the upstream that had the requests, for another call after an early end
   */
  drain(release: ReleaseOfApp, signal: AbortSignal, replaced?: Upstream | null): Promise<Upstream | null>
}

type ReleaseOfApp = Pick<DeploymentRow, 'id' | 'app_id'>

export function createRoutes(dependencies: {
  readonly gateway: Pick<Gateway, 'current' | 'route' | 'drain'>
  readonly lock: KeyedLock
  readonly drainMs: number
}): Routes {
  const { gateway, lock, drainMs } = dependencies

  const unroute: Routes['unroute'] = (row, mayUnroute) =>
    lock(row.app_id, async () => {
      const current = gateway.current(row.app_id)
      if (current?.deploymentId !== row.id || (await mayUnroute?.()) === false) return null
      await gateway.route(row.app_id, null)
      return current
    })

  return {
    unroute,

    route: (appId, upstream, mayRoute) =>
      lock(appId, async () => {
        const may = await mayRoute()
        if (may) await gateway.route(appId, upstream)
        return may
      }),

    async drain(release, signal, replaced = null) {
      const upstream = (await unroute(release)) ?? replaced
      if (upstream !== null && !signal.aborted) await gateway.drain(upstream, { timeoutMs: drainMs, signal })
      return upstream
    },
  }
}

type Row = Pick<DeploymentRow, 'id' | 'app_id' | 'variables' | 'build_plan'>

/**
 * Returns the upstream of a release at these endpoints, with keys for the cookies of its clients when its plan requires
 * them.
 */
export function upstreamOf(row: Row, endpoints: Upstream['endpoints']): Upstream {
  const isSticky = row.build_plan?.processes?.[web]?.sticky === true
  return { deploymentId: row.id, endpoints, ...(isSticky && { sticky: stickyOf(row, endpoints) }) }
}

/**
 * Gives each endpoint a key that does not reveal the endpoint, and that is the same on all servers. The stored form of
 * the release's variables begins with random bytes that clients never see. Each app has its own cookies: browsers send
 * a host's cookies to all ports of the host.
 */
function stickyOf({ app_id, variables }: Row, endpoints: readonly Endpoint[]): Sticky {
  const suffix = createHash('sha256').update(app_id).digest('hex').slice(0, 12)
  const keyOf = (endpoint: Endpoint) =>
    createHmac('sha256', variables).update(JSON.stringify(endpoint)).digest('hex').slice(0, 32)
  return { cookie: `fairlead_instance_${suffix}`, keys: endpoints.map(keyOf) }
}
