import { NotLeading } from '../../platform/leadership/epoch.ts'
import type { Logger } from '../../platform/logger.ts'
import { isShortage } from '../../platform/processes.ts'
import type { Deploy } from './deploy.ts'
import { DeploymentError, failureOf, serverFailure } from './failure.ts'
import { type InstanceControl, releaseRef } from './instances.ts'
import { type DeploymentLocks, type HeldLock, isInterrupted } from './lock.ts'
import type { Fail } from './outcome.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentSecrets } from './secrets.ts'
import { NoLongerDesired } from './switch.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * Runs the job of one deployment. It leaves the deployment in its true state: running, failed with the reason, or, when
 * the server itself stops, still building for the server's next start.
 */
type DeployJob = (deploymentId: string, stopping: AbortSignal) => Promise<void>

interface DeployJobDependencies {
  readonly store: {
    readonly jobs: Pick<DeploymentStore['jobs'], 'begin' | 'giveBack'>
    readonly rows: Pick<DeploymentStore['rows'], 'find'>
  }
  readonly locks: Pick<DeploymentLocks, 'run'>
  readonly instances: Pick<InstanceControl, 'halt' | 'remove' | 'isMade'>
  readonly secrets: Pick<DeploymentSecrets, 'valuesOf'>
  readonly deploy: Deploy
  readonly fail: Fail
  readonly logger: Logger
}

/** A deployment that crashed the server twice is not tried again. */
const attemptsAllowed = 2

export function createDeployJob(dependencies: DeployJobDependencies): DeployJob {
  return async (deploymentId, stopping) => {
    let again = true
    while (again) {
      again = await dependencies.locks.run(deploymentId, (held) => attempt(dependencies, deploymentId, held), stopping)
    }
  }
}

/** Returns true when it was interrupted: only the row can tell whether a later request was accepted. */
async function attempt(
  dependencies: DeployJobDependencies,
  deploymentId: string,
  { signal, setGeneration }: HeldLock,
): Promise<boolean> {
  const { store, deploy } = dependencies
  const row = await store.jobs.begin(deploymentId)
  if (row === undefined) return false
  // No files or instances exist yet, and the later request may need the release unchanged.
  if (signal.aborted) return giveBack(dependencies, row, signal)
  setGeneration(row)
  const logger = dependencies.logger.child({ deployment: row.id, project: row.project_id })
  try {
    // The server may have ended during an earlier attempt, which left files or instances.
    if (!row.retained && (await dependencies.instances.isMade(releaseRef(row)))) await cleanUp(dependencies, row)
    if (row.attempts > attemptsAllowed) {
      throw new DeploymentError('build', 'interrupted', 'The server ended twice while it worked on this. Deploy again.')
    }
    logger.info('deployment begins')
    signal.throwIfAborted()
    await deploy(row, signal)
    logger.info('deployment runs')
    return false
  } catch (error) {
    await cleanUp(dependencies, row).catch((failed: unknown) => {
      logger.error({ err: failed }, 'leftovers of a deployment could not be removed; the sweep retries')
    })
    if (signal.aborted) return giveBack(dependencies, row, signal)
    // The next leader already has the job.
    if (error instanceof NotLeading) throw error
    if (isShortage(error) && row.git_token === null) {
      // The queue retries until it succeeds.
      await dependencies.store.jobs.giveBack(row)
      throw error
    }
    if (isWorthAnotherAttempt(row, error)) throw error
    await settle(dependencies, row, error, logger)
    return false
  }
}

/**
 * True for an error of the server itself, such as a short outage of the database: the job queue retries the job. False
 * when the token may have been deleted, because git could not read the repository again.
 */
function isWorthAnotherAttempt({ attempts, git_token }: DeploymentRow, error: unknown): boolean {
  const isServers = !(error instanceof DeploymentError || error instanceof NoLongerDesired)
  return isServers && attempts < attemptsAllowed && git_token === null
}

/** Returns true when the row must be read again; rejects when the server stops. */
async function giveBack({ store }: DeployJobDependencies, row: DeploymentRow, signal: AbortSignal): Promise<true> {
  await store.jobs.giveBack(row)
  if (isInterrupted(signal)) return true
  throw signal.reason
}

/**
 * Ends everything that runs of a release without the address; removes its files unless the release is retained. Only
 * the row tells the job's outcome: the plan may have chosen another runtime, and the release serves if the last commit
 * succeeded without a confirmation.
 */
async function cleanUp({ store, instances }: DeployJobDependencies, row: DeploymentRow): Promise<void> {
  const now = await store.rows.find(row.id)
  if (now?.status === 'running') return
  const release = { ...releaseRef(row), runtime: now?.runtime ?? null }
  if ((now ?? row).retained) await instances.halt(release)
  else await instances.remove(release)
}

async function settle(
  { store, secrets, fail }: DeployJobDependencies,
  row: DeploymentRow,
  error: unknown,
  logger: Logger,
): Promise<void> {
  if (error instanceof NoLongerDesired) return
  try {
    // A password of a linked database may have been rotated since the job began.
    const now = (await store.rows.find(row.id)) ?? row
    const failure = failureOf(error, [...secrets.valuesOf(row), ...secrets.valuesOf(now)])
    if (error instanceof DeploymentError) logger.info({ failure }, 'deployment failed')
    else logger.error({ err: error }, 'deployment failed by an error of the server')
    await fail(row, failure)
  } catch (storeError) {
    // A reason that cannot be stored must not keep the deployment in `building`.
    logger.error({ err: storeError }, 'the reason of a failure could not be stored')
    await fail(row, serverFailure)
  }
}
