import type { DockerConfig } from '../../../platform/config/docker.ts'
import type { Finding } from '../../../platform/machine/finding.ts'

/** Tells an operator what the containers of apps are made of, where all programs run in containers. */
export function baseFindings({ alone }: Pick<DockerConfig, 'alone'>): Finding[] {
  if (alone === null) return []
  const subject = 'base of containers'
  if (alone.base !== null) return [{ subject, state: 'ok', found: `${alone.base} (FAIRLEAD_DOCKER_BASE)` }]
  const found = 'the programs of this machine, imported once for each state that they are in'
  return [{ subject, state: 'ok', found }]
}
