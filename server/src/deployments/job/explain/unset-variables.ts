import type { BuildPlan } from '../../../builds/build-plan.ts'
import { DeploymentError, withSentence } from '../../failure.ts'

/** Failures behind which a variable without a value may stand. */
const codes: ReadonlySet<string> = new Set([
  'build_failed',
  'release_failed',
  'app_exited',
  'not_listening',
  'unhealthy',
])
const mostNamed = 12

/**
 * Returns the error of a deployment with the names of variables that the repository gives samples of and the app has no
 * value for; any other error as it is.
 *
 * @param variables the app's own variables
 */
export function nameUnset(
  error: unknown,
  { samples }: Pick<BuildPlan, 'samples'>,
  variables: Readonly<Record<string, string>>,
): unknown {
  if (samples === undefined || !(error instanceof DeploymentError) || !codes.has(error.failure.code)) return error
  const unset = samples.names.filter((name) => !Object.hasOwn(variables, name))
  if (unset.length === 0) return error
  const named = unset.slice(0, mostNamed).join(', ')
  const more = unset.length > mostNamed ? ` and ${unset.length - mostNamed} more` : ''
  return withSentence(
    error,
    `${samples.file} names variables that have no value here: ${named}${more}. If the app needs them, set them in the ` +
      'request (env_vars), with "fairlead env set", or in the dashboard, and deploy again.',
  )
}
