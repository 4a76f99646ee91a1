import type { FileHandle } from 'node:fs/promises'
import type { BuildPlan } from '../../../builds/build-plan.ts'
import type { Images, RegistryCredentials, Release } from '../../../runtimes/runtime.ts'
import { DeploymentError, exceededLimit, seeOutput, withLastLines } from '../../failure.ts'

/** Builds the Dockerfile of a plan, and returns the plan. Rejects with a `DeploymentError` that ends in the build's last lines. */
export async function buildImage(
  images: Images | null,
  release: Release,
  { plan }: { readonly plan: BuildPlan },
  given: {
    readonly output: FileHandle
    readonly signal: AbortSignal
    readonly lastLines: () => Promise<readonly string[]>
    /** Returns the credentials that the project has for a registry; null without. */
    readonly credentialsFor: (registry: string) => Promise<RegistryCredentials | null>
  },
): Promise<BuildPlan> {
  const { output, signal, lastLines, credentialsFor } = given
  if (images === null || plan.image === undefined) {
    throw new DeploymentError('build', 'no_docker', 'This server builds no Dockerfiles any more.')
  }
  const { path } = plan.image
  const exit = await images.build(release, plan.image, { output, signal, credentialsFor })
  if (exit.code === 0) return plan
  const lines = await lastLines()
  const end = `The build of ${path} ended ${exit.signal === null ? `with code ${exit.code}` : `by ${exit.signal}`}.`
  if (exit.exceeded !== null) throw exceededLimit(exit.exceeded, end, lines)
  throw new DeploymentError('build', 'build_failed', withLastLines(`${end} ${seeOutput(lines)}`, lines))
}
