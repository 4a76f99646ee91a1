import type { DeploymentTrigger } from '../../contract/deployments.ts'
import type { Principal } from '../../http/principal.ts'

/** Returns who creates a deployment, as it is kept with it: keys and users may be gone later. */
export function triggerOf({ actor, workflow }: Pick<Principal, 'actor' | 'workflow'>): DeploymentTrigger {
  return {
    kind: workflow === null ? actor.type : 'workflow',
    name: actor.name,
    repository: workflow?.repository ?? null,
    run_url: workflow?.run_url ?? null,
    actor: workflow?.actor ?? null,
    event: workflow?.event ?? null,
  }
}
