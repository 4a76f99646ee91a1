import type { BuildOutcome, Plan, Release, Runner } from '../../runtimes/runtime.ts'
import { DeploymentError, saidOf, withLastLines } from '../state/failure.ts'

const linesInFailure = 20

/**
 * Builds the release, then runs what is to run once before it starts. Rejects with a `DeploymentError` that ends in the
 * last lines of what failed.
 */
export async function buildRelease(runner: Runner, release: Release, plan: Plan, signal: AbortSignal): Promise<void> {
  const built = await runner.build(release, plan, { signal })
  if (!built.ok) throw await failure(runner, release, 'build_failed', built)
  if (plan.release === undefined) return
  const released = await runner.build(release, { ...plan, build: [plan.release] }, { signal })
  if (!released.ok) throw await failure(runner, release, 'release_failed', released)
}

async function failure(
  runner: Runner,
  release: Release,
  code: 'build_failed' | 'release_failed',
  outcome: Extract<BuildOutcome, { ok: false }>,
): Promise<DeploymentError> {
  const how = outcome.signal === null ? `with code ${outcome.code}` : `by ${outcome.signal}`
  const lines = await runner.logs(release, 'build', { lines: linesInFailure })
  if (outcome.exceeded !== null) {
    const said = `${saidOf(outcome.exceeded, 'build', release.limits)} ${outcome.command} ended ${how}.`
    return new DeploymentError('build', outcome.exceeded, withLastLines(said, lines))
  }
  const message = withLastLines(`${outcome.command} ended ${how}. Put right what its output says.`, lines)
  return new DeploymentError('build', code, message)
}
