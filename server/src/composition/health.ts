import { once } from 'node:events'
import { countByStatus } from '../deployments/owners/count.ts'
import { countJobs, type Workers } from '../platform/jobs.ts'
import type { Logger } from '../platform/logger.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { State } from '../platform/startup/state.ts'

const readinessTimeoutMs = 5_000

/** What keeps the server from working, in words for everybody. */
export function readiness(state: State, workers: Workers, logger: Logger): () => Promise<string | undefined> {
  return async () => {
    const late = AbortSignal.timeout(readinessTimeoutMs)
    try {
      await Promise.race([state.pool.query('select 1'), once(late, 'abort').then(() => Promise.reject(late.reason))])
    } catch (error) {
      logger.debug({ err: error }, 'not ready')
      return 'the database does not answer'
    }
    return workers.isRunning() ? undefined : 'the work on jobs has broken off'
  }
}

export function countIn(metrics: Metrics, state: State): void {
  metrics.gauge({
    name: 'fairlead_jobs',
    help: 'Jobs by state: waiting, running, failed for good.',
    label: 'state',
    read: async () => ({ ...(await countJobs(state.pool)) }),
  })
  metrics.gauge({
    name: 'fairlead_deployments',
    help: 'Deployments by status.',
    label: 'status',
    read: () => countByStatus(state.db),
  })
}
