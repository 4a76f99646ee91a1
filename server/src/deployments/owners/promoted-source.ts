import { invalidRequest } from '../../contract/errors.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import type { DeploymentStore } from '../rows.ts'
import type { DeploymentSource, RuntimeNames } from './deployment-source.ts'

/**
 * Returns the source of a deployment that is made of another one's release. Throws `invalid_request` when that is not of the
 * account, is of a project that the caller may not use, or is not kept; nobody learns which deployments others have.
 */
export async function promotedSource(
  given: {
    readonly store: Pick<DeploymentStore, 'rows'>
    readonly runtimes: RuntimeNames
    readonly mayUse: (projectId: string) => boolean
  },
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<DeploymentSource> {
  const refuse = (message: string) => invalidRequest({ field: 'from_deployment_id', message })
  const from = await given.store.rows.find(id, transaction)
  if (from === undefined || from.account_id !== project.accountId || !given.mayUse(from.project_id)) {
    throw refuse('names no deployment of a project that you may use')
  }
  if (!from.retained || from.build_plan === null) throw refuse('has no release that is kept: deploy its commit instead')
  const { git_url: gitUrl, source_id: sourceId, image, image_digest: imageDigest } = from
  const { branch, commit, commit_details: commitDetails, root, runtime } = from
  if (runtime !== given.runtimes.preferred && runtime !== given.runtimes.images) {
    throw refuse('was built for a runtime that this server does not have: deploy its commit instead')
  }
  return { gitUrl, sourceId, image, imageDigest, fromId: from.id, branch, commit, commitDetails, root, runtime }
}
