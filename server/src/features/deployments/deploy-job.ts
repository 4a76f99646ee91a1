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
 * Runs the job of one deployment. It leaves the deployment in a state that is true: running, failed with the reason, or,
 * when the server itself stops, still building for its next start.
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

/** A deployment that ended the server twice is not tried a third time. */
const attemptsAllowed = 2

export function createDeployJob(dependencies: DeployJobDependencies): DeployJob {
  return async (deploymentId, stopping) => {
    let again = true
    while (again) {
      again = await dependencies.locks.run(deploymentId, (held) => attempt(dependencies, deploymentId, held), stopping)
    }
  }
}

/** Returns true when it was interrupted: a later request may have been accepted, which only the row can tell. */
async function attempt(
  dependencies: DeployJobDependencies,
  deploymentId: string,
  { signal, setGeneration }: HeldLock,
): Promise<boolean> {
  const { store, deploy } = dependencies
  const row = await store.jobs.begin(deploymentId)
  if (row === undefined) return false
  // Nothing has been created yet, and the later request may need the release unchanged.
  if (signal.aborted) return giveBack(dependencies, row, signal)
  setGeneration(row)
  const logger = dependencies.logger.child({ deployment: row.id, project: row.project_id })
  try {
    // An earlier attempt that the server's end cut short may have left something.
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
    // The next leader has the job already.
    if (error instanceof NotLeading) throw error
    if (isShortage(error) && row.git_token === null) {
      // The queue tries again later, for as long as it takes.
      await dependencies.store.jobs.giveBack(row)
      throw error
    }
    if (isWorthAnotherAttempt(row, error)) throw error
    await settle(dependencies, row, error, logger)
    return false
  }
}

/**
 * True for an error of the server itself, such as a database that was unreachable for a moment: the job queue retries it.
 * False when the token may have been deleted, since the repository could not be read again.
 */
function isWorthAnotherAttempt({ attempts, git_token }: DeploymentRow, error: unknown): boolean {
  const isServers = !(error instanceof DeploymentError || error instanceof NoLongerDesired)
  return isServers && attempts < attemptsAllowed && git_token === null
}

/** Returns true when the row is to be read again; rejects when the server stops. */
async function giveBack({ store }: DeployJobDependencies, row: DeploymentRow, signal: AbortSignal): Promise<true> {
  await store.jobs.giveBack(row)
  if (isInterrupted(signal)) return true
  throw signal.reason
}

/**
 * Ends everything that runs of a release without the address; its files go, unless the release is retained. The row tells what the job
 * has become: the plan may have led it to another runtime, and the release serves when the job heard nothing of its last commit.
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
