import { join } from 'node:path'
import type { DeploymentStage } from '../contract/resources/deployments.ts'
import { DeploymentError, withLastLines } from './failure.ts'
import type { DeployParts } from './parts.ts'
import { planRelease, readSourceTree } from './plan.ts'
import type { Plan, Release } from './runner/runner.ts'
import { fetchSource } from './steps/fetch.ts'
import { untilHealthy } from './steps/health.ts'
import { switchOver } from './steps/switch-over.ts'
import type { DeploymentRow } from './store.ts'

/**
 * Takes a deployment from its repository to a release that answers at the app's address.
 * Rejects with a `DeploymentError` that says which step failed and why, or with the signal's reason.
 * What was made on the way is the caller's to remove.
 */
export async function deploy(parts: DeployParts, deployment: DeploymentRow, signal: AbortSignal): Promise<void> {
  const app = await parts.apps.get(deployment.app_id)
  const release = parts.releases.of(deployment, app.number)
  await parts.releases.prepare(release)

  const source = await within('fetch', parts.settings.fetchTimeoutMs, signal, (limit) =>
    fetchSource(parts, { gitUrl: deployment.git_url, branch: deployment.branch, directory: sourceOf(release) }, limit),
  )
  const plan = await planFor(parts, release)
  await parts.releases.handOver(release)
  await parts.buildSlots(() => {
    return within('build', parts.settings.buildTimeoutMs, signal, (limit) => build(parts, release, plan, limit))
  })

  const instance = await parts.runner.start(release, plan)
  const { host } = await untilHealthy(parts.runner, release, instance, parts.settings, signal)
  const upstream = { deploymentId: release.id, host, port: instance.port }
  await switchOver(parts, { app, deployment, upstream, facts: { ...source, plan, instance } }, signal)
}

function sourceOf(release: Release): string {
  return join(release.directory, 'source')
}

async function planFor(parts: DeployParts, release: Release): Promise<Plan> {
  const planned = planRelease(await readSourceTree(sourceOf(release)), parts.planOptions)
  if (!planned.ok) throw new DeploymentError('plan', planned.failure.code, planned.failure.message)
  return planned.plan
}

async function build(parts: DeployParts, release: Release, plan: Plan, signal: AbortSignal): Promise<void> {
  const outcome = await parts.runner.build(release, plan, { signal })
  if (outcome.ok) return
  const how = outcome.signal === null ? `with code ${outcome.code}` : `by ${outcome.signal}`
  const lines = await parts.runner.logs(release, 'build', { lines: 20 })
  throw new DeploymentError(
    'build',
    'build_failed',
    withLastLines(`${outcome.command} ended ${how}. Put right what its output says.`, lines),
  )
}

/** Runs a step under its deadline. */
async function within<T>(
  stage: DeploymentStage,
  timeoutMs: number,
  signal: AbortSignal,
  step: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = AbortSignal.timeout(timeoutMs)
  try {
    return await step(AbortSignal.any([signal, deadline]))
  } catch (error) {
    if (deadline.aborted && !signal.aborted && !(error instanceof DeploymentError)) {
      throw new DeploymentError(
        stage,
        'timeout',
        `The ${stage} took longer than ${timeoutMs / 1000} s and was stopped.`,
      )
    }
    throw error
  }
}
