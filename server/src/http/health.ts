import { ApiError } from '../contract/errors.ts'
import { unlessAborted } from '../platform/abort.ts'
import type { Config } from '../platform/config.ts'
import { criticalBytes, freeBytesIn } from '../platform/disk/free-space.ts'
import { countJobs } from '../platform/jobs.ts'
import type { Member } from '../platform/leadership/membership.ts'
import type { Logger } from '../platform/logger.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { State } from '../platform/state.ts'

const readinessTimeoutMs = 5_000
/** There is no leader when the leadership was not renewed for this time. */
const leaderless = '10 seconds'

/** Returns the check for `/readyz`, which gives the reason why the server cannot work, without internal details. */
export function readiness(
  state: Pick<State, 'pool' | 'directory'>,
  member: Member,
  { config, logger }: { readonly config: Pick<Config, 'deploys'>; readonly logger: Pick<Logger, 'debug'> },
): () => Promise<string | undefined> {
  return async () => {
    const late = AbortSignal.timeout(readinessTimeoutMs)
    const query = `select from leadership where renewed_at > clock_timestamp() - interval '${leaderless}'`
    try {
      const { rowCount } = await unlessAborted(state.pool.query(query), late)
      if (rowCount === 0) return 'no server leads'
    } catch (error) {
      logger.debug({ err: error }, 'not ready')
      return 'the database does not answer'
    }
    if (await isFull(state.directory.root, config.deploys.reserveBytes)) return 'the disk is full'
    if (!member.hasTriedAllApps()) return 'apps are being started'
    return member.isWorking() ? member.gatewayProblem() : 'no jobs are being run'
  }
}

async function isFull(directory: string, reserveBytes: number): Promise<boolean> {
  return (await freeBytesIn(directory)) < criticalBytes(reserveBytes)
}

/** Throws `server_error` when PostgreSQL may soon fail to write because of a full disk. */
export async function assertWritable(directory: string, reserveBytes: number): Promise<void> {
  if (!(await isFull(directory, reserveBytes))) return
  throw new ApiError(
    'server_error',
    'The disk of the server is full, so that nothing can be changed now. Tell its operator.',
  )
}

export function registerRole(metrics: Metrics, member: Member): void {
  metrics.gauge({
    name: 'fairlead_role',
    help: '1 for the role that this server has: leader, or follower of another one.',
    label: 'role',
    read: async () => ({ [member.isLeader() ? 'leader' : 'follower']: 1 }),
  })
}

export function registerLostLines(metrics: Metrics, lost: () => number = () => 0): void {
  metrics.counter({
    name: 'fairlead_log_lines_lost_total',
    help: 'Lines of the log that were lost, because its reader did not take them or the disk was full.',
    read: lost,
  })
}

export function registerGauges(
  metrics: Metrics,
  pool: State['pool'],
  countDeployments: () => Promise<Readonly<Record<string, number>>>,
): void {
  metrics.gauge({
    name: 'fairlead_jobs',
    help: 'Jobs by state: waiting, running, failed for good.',
    label: 'state',
    read: async () => ({ ...(await countJobs(pool)) }),
  })
  metrics.gauge({
    name: 'fairlead_deployments',
    help: 'Deployments by status.',
    label: 'status',
    read: countDeployments,
  })
}
