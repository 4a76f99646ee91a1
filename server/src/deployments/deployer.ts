import { deploy } from './deploy.ts'
import { DeploymentError, failureOf, serverFailure } from './failure.ts'
import type { DeployParts } from './parts.ts'
import { NoLongerBuilding } from './steps/switch-over.ts'
import type { DeploymentRow } from './store.ts'

/** A deployment that killed the server twice is not tried a third time. */
const attemptsAllowed = 2

/**
 * The job that works on one deployment. It always leaves the deployment in a state that is true:
 * running, failed with the reason, or, when the server itself stops, still building for its next start.
 */
export async function workOn(parts: DeployParts, deploymentId: string, signal: AbortSignal): Promise<void> {
  const deployment = await parts.store.begin(deploymentId)
  if (deployment === undefined) return
  const logger = parts.logger.child({ deployment: deployment.id, project: deployment.project_id })
  try {
    // What an earlier try, cut off by the server's end, has left.
    await removeRelease(parts, deployment)
    if (deployment.attempts > attemptsAllowed) {
      throw new DeploymentError('build', 'interrupted', 'The server ended twice while it worked on this. Deploy again.')
    }
    logger.info('deployment begins')
    await deploy(parts, deployment, signal)
    logger.info('deployment runs')
  } catch (error) {
    await removeRelease(parts, deployment).catch((failed: unknown) => {
      logger.error({ err: failed }, 'what a failed deployment left could not be removed; the next start tries again')
    })
    if (signal.aborted) {
      await parts.store.giveBack(deployment.id)
      throw signal.reason
    }
    await settle(parts, deployment, error)
  }
}

async function removeRelease(parts: DeployParts, deployment: DeploymentRow): Promise<void> {
  const app = await parts.apps.get(deployment.app_id)
  await parts.runner.remove(parts.releases.of(deployment, app.number))
}

async function settle(parts: DeployParts, deployment: DeploymentRow, error: unknown): Promise<void> {
  if (error instanceof NoLongerBuilding) return
  const logger = parts.logger.child({ deployment: deployment.id, project: deployment.project_id })
  try {
    const failure = failureOf(error, parts.releases.variablesOf(deployment))
    if (error instanceof DeploymentError) logger.info({ failure }, 'deployment failed')
    else logger.error({ err: error }, 'deployment failed by an error of the server')
    await parts.store.fail(deployment.id, failure)
  } catch (unsaid) {
    // A reason that cannot be told must not keep the deployment building.
    logger.error({ err: unsaid }, 'the reason of a failure could not be stored')
    await parts.store.fail(deployment.id, serverFailure)
  }
}
