import type { SecretBox } from '../../platform/secrets.ts'
import type { Limits } from '../../runtimes/limits.ts'
import type { Release } from '../../runtimes/runtime.ts'
import type { App } from './app-directory.ts'
import type { Variables } from './release-variables.ts'
import type { DeploymentRow } from './tables.ts'

export interface DeploymentSecrets {
  variablesOf(deployment: Pick<DeploymentRow, 'id' | 'variables'>): Variables
  tokenOf(deployment: Pick<DeploymentRow, 'id' | 'git_token'>): string | null
  /**
   * Returns the values that logs and failures mask: secret variables, current and former passwords of linked databases,
   * and the token.
   */
  valuesOf(
    deployment: Pick<DeploymentRow, 'id' | 'variables' | 'variable_origins' | 'former_values' | 'git_token'>,
  ): readonly string[]
  /** Returns the connection strings that a release had before rotations, the latest last. */
  formerOf(deployment: Pick<DeploymentRow, 'id' | 'former_values'>): readonly string[]
}

export function createDeploymentSecrets(secrets: SecretBox): DeploymentSecrets {
  const variablesOf: DeploymentSecrets['variablesOf'] = (deployment) =>
    JSON.parse(secrets.decrypt(deployment.variables, deployment.id))
  const tokenOf: DeploymentSecrets['tokenOf'] = ({ id, git_token }) =>
    git_token === null ? null : secrets.decrypt(git_token, tokenContext(id))
  const formerOf: DeploymentSecrets['formerOf'] = ({ id, former_values }) =>
    former_values === null ? [] : JSON.parse(secrets.decrypt(former_values, id))
  return {
    variablesOf,
    tokenOf,
    formerOf,
    valuesOf(deployment) {
      const token = tokenOf(deployment)
      const { plain, linked = {} } = deployment.variable_origins
      const variables = variablesOf(deployment)
      const secret = Object.entries(variables).flatMap(([name, value]) => (plain.includes(name) ? [] : [value]))
      // Many programs print the parts of an address separately.
      const former = formerOf(deployment)
      const addresses = [...Object.keys(linked).map((name) => variables[name] ?? ''), ...former]
      const passwords = addresses.flatMap((address) => URL.parse(address)?.password ?? [])
      return [...secret, ...former, ...passwords, ...(token === null ? [] : [token, ...token.split(':')])]
    },
  }
}

export const tokenContext = (deploymentId: string): string => `${deploymentId} git_token`

export type ReleaseOf = (row: DeploymentRow, app: Pick<App, 'number' | 'name'>) => Promise<Release>

export function createReleaseOf(dependencies: {
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly limitsOf: (projectId: string) => Promise<Limits>
  readonly slugOf: (name: string) => string
}): ReleaseOf {
  return async (row, app) => ({
    id: row.id,
    appId: row.app_id,
    appNumber: app.number,
    projectId: row.project_id,
    internalName: dependencies.slugOf(app.name),
    limits: await dependencies.limitsOf(row.project_id),
    variables: dependencies.secrets.variablesOf(row),
    rotations: row.variable_origins.rotations ?? 0,
    volumes: row.build_plan?.volumes ?? {},
  })
}
