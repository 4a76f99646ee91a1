import { countByStatus } from '../deployments/state/reads.ts'
import { unlessAborted } from '../platform/abort.ts'
import { countJobs } from '../platform/jobs.ts'
import type { Logger } from '../platform/logger.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { State } from '../platform/startup/state.ts'
import type { Leading } from './lead.ts'

const readinessTimeoutMs = 5_000

/** Returns the check behind `/readyz`: the reason why the server cannot work, without internal details. */
export function readiness(
  state: Pick<State, 'pool'>,
  leading: Pick<Leading, 'isWorking'>,
  logger: Logger,
): () => Promise<string | undefined> {
  return async () => {
    const late = AbortSignal.timeout(readinessTimeoutMs)
    try {
      await unlessAborted(state.pool.query('select 1'), late)
    } catch (error) {
      logger.debug({ err: error }, 'not ready')
      return 'the database does not answer'
    }
    return leading.isWorking() ? undefined : 'no jobs are being run'
  }
}

/** Registers the gauges that read the database. */
export function registerGauges(metrics: Metrics, state: Pick<State, 'db' | 'pool'>): void {
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
