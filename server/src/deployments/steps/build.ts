import { DeploymentError, saidOf, withLastLines } from '../failure.ts'
import type { Plan, Release, Runner } from '../runner/runner.ts'

const linesInFailure = 20

/** Builds the release. Rejects with a `DeploymentError` that ends in the last lines of a build that failed. */
export async function buildRelease(runner: Runner, release: Release, plan: Plan, signal: AbortSignal): Promise<void> {
  const outcome = await runner.build(release, plan, { signal })
  if (outcome.ok) return
  const how = outcome.signal === null ? `with code ${outcome.code}` : `by ${outcome.signal}`
  const lines = await runner.logs(release, 'build', { lines: linesInFailure })
  if (outcome.exceeded !== null) {
    const said = `${saidOf(outcome.exceeded, 'build', release.limits)} ${outcome.command} ended ${how}.`
    throw new DeploymentError('build', outcome.exceeded, withLastLines(said, lines))
  }
  throw new DeploymentError(
    'build',
    'build_failed',
    withLastLines(`${outcome.command} ended ${how}. Put right what its output says.`, lines),
  )
}
