import type { Gateway, Upstream } from '../../gateway/client.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Release } from '../../runtimes/runtime.ts'
import type { HealthCheck } from '../job/health.ts'
import type { InstanceControl } from '../job/instances.ts'
import { type Routes, stopGraceMs } from '../job/routes.ts'
import { upstreamOf } from '../job/upstream.ts'
import type { DeploymentStore } from '../rows.ts'
import type { DeploymentRow } from '../tables.ts'

/**
 * Puts an instance as this server starts them in the place of one that a server of an older version has started otherwise.
 * The old one answers until the new one has the address, and goes on when that does not come up. Does nothing for an
 * instance that is current.
 */
export type Renew = (row: DeploymentRow, release: Release, old: Upstream, signal: AbortSignal) => Promise<void>

export function createRenew(dependencies: {
  readonly store: { readonly jobs: Pick<DeploymentStore['jobs'], 'setInstance'> }
  readonly instances: Pick<InstanceControl, 'isCurrent' | 'start' | 'stop'>
  readonly gateway: Pick<Gateway, 'drain'>
  readonly routes: Pick<Routes, 'route'>
  readonly checkHealth: HealthCheck
  readonly settings: { readonly startTimeoutMs: number; readonly stableMs: number; readonly drainMs: number }
  readonly logger: Logger
}): Renew {
  const { store, instances, gateway, routes, checkHealth, settings, logger } = dependencies
  const renew: Renew = async (row, release, old, signal) => {
    if (row.instance === null || row.build_plan === null) return
    if (instances.isCurrent(row.instance, row.build_plan.start)) return
    logger.info({ deployment: row.id }, 'an instance of an older version is replaced')
    const started = await instances.start(release, row.runtime, row.build_plan.start)
    const { instance, endpoints } = await checkHealth(
      release,
      started,
      { ...settings, path: row.build_plan.health },
      signal,
    )
    const upstream = upstreamOf(row, endpoints)
    const isRouted = await routes.route(row.app_id, upstream, async () => store.jobs.setInstance(row, instance))
    if (!isRouted) return instances.stop(release, instance, { graceMs: stopGraceMs })
    await gateway.drain(old, { timeoutMs: settings.drainMs, signal })
    await instances.stop(release, row.instance, { graceMs: stopGraceMs })
  }
  return (row, release, old, signal) =>
    renew(row, release, old, signal).catch((error: unknown) => {
      if (!signal.aborted) logger.warn({ err: error, deployment: row.id }, 'the instance of an older version goes on')
    })
}
