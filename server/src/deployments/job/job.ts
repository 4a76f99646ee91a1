import { DeploymentError, failureOf, serverFailure } from '../state/failure.ts'
import { isInterrupted, type Turn } from '../state/lock.ts'
import type { DeploymentRow } from '../state/store.ts'
import { deploy } from './deploy.ts'
import { failDeployment } from './fail.ts'
import type { DeployParts } from './parts.ts'
import { NoLongerWanted } from './switch-over.ts'

/** A deployment that killed the server twice is not tried a third time. */
const attemptsAllowed = 2

/**
 * The job that works on one deployment. It always leaves the deployment in a state that is true:
 * running, failed with the reason, or, when the server itself stops, still building for its next start.
 */
export async function workOn(parts: DeployParts, deploymentId: string, stopping: AbortSignal): Promise<void> {
  let lookAgain = true
  while (lookAgain) {
    lookAgain = await parts.work.run(deploymentId, (turn) => attempt(parts, deploymentId, turn), stopping)
  }
}

/** Gives whether it was interrupted: the deployment may be wanted in another way, which only its row can tell. */
async function attempt(parts: DeployParts, deploymentId: string, { signal, worksFor }: Turn): Promise<boolean> {
  const deployment = await parts.store.begin(deploymentId)
  if (deployment === undefined) return false
  // Nothing has been made yet, and what an earlier wish has left may be wanted as it is.
  if (signal.aborted) return leaveOff(parts, deployment, signal)
  worksFor(deployment)
  const logger = parts.logger.child({ deployment: deployment.id, project: deployment.project_id })
  try {
    // What an earlier try, cut off by the server's end, has left.
    if (!deployment.retained) await cleanUp(parts, deployment)
    if (deployment.attempts > attemptsAllowed) {
      throw new DeploymentError('build', 'interrupted', 'The server ended twice while it worked on this. Deploy again.')
    }
    logger.info('deployment begins')
    signal.throwIfAborted()
    await deploy(parts, deployment, signal)
    logger.info('deployment runs')
    return false
  } catch (error) {
    await cleanUp(parts, deployment).catch((failed: unknown) => {
      logger.error({ err: failed }, 'what a deployment left could not be removed; it is tried again by itself')
    })
    if (signal.aborted) return leaveOff(parts, deployment, signal)
    if (isWorthAnotherTry(deployment, error)) throw error
    await settle(parts, deployment, error)
    return false
  }
}

/**
 * An error of the server itself, such as a database that was away for a moment: its job is tried again by itself. Not
 * where the token may have been used up, for the repository could not be read again.
 */
function isWorthAnotherTry({ attempts, git_token }: DeploymentRow, error: unknown): boolean {
  const isServers = !(error instanceof DeploymentError || error instanceof NoLongerWanted)
  return isServers && attempts < attemptsAllowed && git_token === null
}

/** Gives true when it is to be looked again; rejects when the server stops. */
async function leaveOff(parts: DeployParts, deployment: DeploymentRow, signal: AbortSignal): Promise<true> {
  await parts.store.giveBack(deployment)
  if (isInterrupted(signal)) return true
  throw signal.reason
}

/** Ends what runs of a release that does not have the address; its files go, unless they are a release to go back to. */
async function cleanUp(parts: DeployParts, deployment: DeploymentRow): Promise<void> {
  const app = await parts.apps.get(deployment.app_id)
  const release = await parts.releases.of(deployment, app.number)
  if (deployment.retained) await parts.runner.halt(release)
  else await parts.runner.remove(release)
}

async function settle(parts: DeployParts, deployment: DeploymentRow, error: unknown): Promise<void> {
  if (error instanceof NoLongerWanted) return
  const logger = parts.logger.child({ deployment: deployment.id, project: deployment.project_id })
  try {
    const failure = failureOf(error, parts.releases.secretsOf(deployment))
    if (error instanceof DeploymentError) logger.info({ failure }, 'deployment failed')
    else logger.error({ err: error }, 'deployment failed by an error of the server')
    await failDeployment(parts, deployment, failure)
  } catch (unsaid) {
    // A reason that cannot be told must not keep the deployment building.
    logger.error({ err: unsaid }, 'the reason of a failure could not be stored')
    await failDeployment(parts, deployment, serverFailure)
  }
}
