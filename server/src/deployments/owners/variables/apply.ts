import { ApiError, notFound } from '../../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../../contract/operations.ts'
import type { Principal, TenantProject } from '../../../http/principal.ts'
import type { Transaction } from '../../../platform/database.ts'
import type { Plans } from '../../../platform/plans.ts'
import type { App } from '../../app-directory.ts'
import type { UrlOf } from '../../outcome.ts'
import { currentRelease } from '../../reads.ts'
import { givenOf } from '../../release-variables.ts'
import type { DeploymentStore } from '../../rows.ts'
import type { DeploymentSecrets } from '../../secrets.ts'
import type { DeploymentRow } from '../../tables.ts'
import type { AddRelease } from '../add-release.ts'
import type { RepositoryToCheck } from '../check-source.ts'
import { type DeploymentSource, imageSource, noSource, type RuntimeNames } from '../deployment-source.ts'
import { assertMayAddApp } from '../may-add-app.ts'
import { itemOf } from '../presentation.ts'
import { promotedSource } from '../promoted-source.ts'
import { triggerOf } from '../trigger.ts'

/**
 * Deploys the commit that serves an app again, with the variables that the app has now. The app is locked by the
 * transaction. Throws `invalid_request` while a deployment of it is building, and for what a creation is refused for.
 */
export type ApplyVariables = (
  transaction: Transaction,
  project: TenantProject,
  app: App,
  request: { readonly principal: Principal; readonly body: BodyOutput<'apps.apply'> },
) => Promise<ResponseBody<'apps.apply'>>

interface ApplyDependencies {
  readonly store: Pick<DeploymentStore, 'releases' | 'ofProjects' | 'rows'>
  readonly plans: Plans
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly addRelease: AddRelease
  readonly runtimes: RuntimeNames
  /** Throws `server_error` when the disk is nearly full. */
  readonly assertRoom: () => Promise<void>
  /** Throws `invalid_request` for a repository that the account may not deploy, and for a token that cannot be sent there. */
  readonly checkRepository: (accountId: string, source: RepositoryToCheck) => Promise<void>
  /** Throws `invalid_request` when an uploaded source is gone, and notes its use otherwise. */
  readonly useUploaded: (transaction: Transaction, projectId: string, sourceId: string) => Promise<unknown>
  readonly urlOf: UrlOf
}

export function createApplyVariables(dependencies: ApplyDependencies): ApplyVariables {
  const { store, secrets, addRelease, assertRoom, urlOf } = dependencies
  return async (transaction, project, app, { principal, body }) => {
    await assertRoom()
    const current = await currentRelease(store.releases, transaction, app.id)
    // An app is deleted with its last deployment.
    if (current === undefined) throw notFound()
    if (current.status === 'building') throw stillBuilding(current.id)
    const source = await sourceAgain(dependencies, transaction, project, current, body)
    await assertMayAddApp(dependencies, transaction, project, app.id)
    const row = await addRelease(transaction, project, {
      appId: app.id,
      ...source,
      trigger: triggerOf(principal),
      applies: true,
      given: givenOf({ variables: secrets.variablesOf(current), origins: current.variable_origins }),
      gitToken: body.git_token,
    })
    return itemOf(row, app, urlOf)
  }
}

/** Returns the source of the commit that is deployed again; a promoted release is copied, as it was before. */
async function sourceAgain(
  dependencies: Pick<ApplyDependencies, 'store' | 'runtimes' | 'useUploaded' | 'checkRepository'>,
  transaction: Transaction,
  project: TenantProject,
  current: DeploymentRow,
  body: BodyOutput<'apps.apply'>,
): Promise<DeploymentSource> {
  const { id, git_url: gitUrl, source_id: sourceId, image, branch, commit, root } = current
  const { runtimes } = dependencies
  if (current.from_deployment_id !== null && current.retained) {
    const mayUse = (projectId: string) => projectId === project.id
    return promotedSource({ ...dependencies, mayUse }, transaction, project, id)
  }
  // The very same image, whatever its tag names by now.
  if (image !== null) return imageSource({ reference: image, digest: current.image_digest }, runtimes)
  if (sourceId !== null) await dependencies.useUploaded(transaction, project.id, sourceId)
  else await dependencies.checkRepository(project.accountId, { git_url: gitUrl, ...body })
  return { ...noSource, gitUrl, sourceId, branch, commit, root, runtime: runtimes.preferred }
}

const stillBuilding = (id: string): ApiError =>
  new ApiError(
    'invalid_request',
    `The deployment ${id} of this app is building, with the variables of its creation. Wait for its end, or cancel it.`,
    { status: 'building' },
  )
