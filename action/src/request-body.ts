import type { BodyInput } from '@fairlead/server/client'
import type { Inputs } from './inputs/inputs.ts'

/** Returns the body of the request that creates the deployment. Empty inputs are left out, so the server's defaults apply. */
export function bodyOf(inputs: Inputs): BodyInput<'deployments.create'> {
  if (inputs.fromDeployment !== '') {
    return { name: inputs.name, from_deployment_id: inputs.fromDeployment, env_vars: inputs.variables }
  }
  if (inputs.image !== '') {
    const volumes = Object.keys(inputs.volumes).length === 0 ? {} : { volumes: inputs.volumes }
    return { name: inputs.name, image: inputs.image, ...volumes, env_vars: inputs.variables }
  }
  return {
    name: inputs.name,
    git_url: inputs.gitUrl,
    ...(inputs.branch === '' ? {} : { branch: inputs.branch }),
    ...(inputs.commit === '' ? {} : { commit: inputs.commit }),
    ...(inputs.root === '' ? {} : { root: inputs.root }),
    ...(inputs.gitToken === '' ? {} : { git_token: inputs.gitToken }),
    env_vars: inputs.variables,
  }
}
