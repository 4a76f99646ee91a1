import type { DeploymentTrigger } from '../../contract/deployments.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { enqueueDeployment } from '../queue.ts'
import { assertFewVariables, releaseVariables, type Variables } from '../release-variables.ts'
import type { DeploymentStore, NewDeployment } from '../rows.ts'
import { tokenContext } from '../secrets.ts'
import type { SourcesOf } from '../state/variables-of-apps/links.ts'
import type { DeploymentRow } from '../tables.ts'
import type { DeploymentSource } from './deployment-source.ts'
import { assertMayBuild } from './may-build.ts'
import { takeSecrets } from './take-secrets.ts'

/** A release to be made, of a source that was checked. */
export interface ReleaseToMake extends Pick<NewDeployment, 'appId' | 'trigger' | 'applies'>, DeploymentSource {
  readonly trigger: DeploymentTrigger
  /** The variables that the deployment is given by itself. */
  readonly given: Variables
  readonly gitToken: string | undefined
}

/**
 * Adds a release with its job, under the lock of its app, and freezes its variables. Throws `invalid_request` when the account
 * allows no further deployment, for too many variables, and for a source that may not have the app's secret ones.
 */
export type AddRelease = (
  transaction: Transaction,
  project: TenantProject,
  release: ReleaseToMake,
) => Promise<DeploymentRow>

export interface AddReleaseDependencies {
  readonly store: Pick<DeploymentStore, 'requests' | 'ofProjects' | 'releases'>
  readonly secretBox: SecretBox
  readonly sourcesOf: SourcesOf
  readonly totals: Pick<Totals, 'assertRoom' | 'takeOne'>
}

export function createAddRelease(dependencies: AddReleaseDependencies): AddRelease {
  const { store, secretBox, sourcesOf } = dependencies
  return async (transaction, project, { given, gitToken, ...release }) => {
    await assertMayBuild(dependencies, transaction, project.accountId)
    const sources = await sourcesOf(transaction, { appId: release.appId, projectId: project.id })
    await takeSecrets(store, transaction, release, sources)
    const { variables, origins } = releaseVariables(sources, given)
    assertFewVariables(variables)
    const id = newId('deployment')
    const row = await store.requests.add(transaction, {
      id,
      projectId: project.id,
      accountId: project.accountId,
      ...release,
      variables: secretBox.encrypt(JSON.stringify(variables), id),
      origins,
      gitToken: gitToken === undefined ? null : secretBox.encrypt(gitToken, tokenContext(id)),
    })
    await enqueueDeployment(transaction, store.ofProjects, row)
    return row
  }
}
