import { ApiError } from '../../contract/errors.ts'
import type { TenantProject } from '../../http/principal.ts'
import { lockByName, type Transaction } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { DeploymentStore } from '../rows.ts'

/**
 * Throws `invalid_request` when the project has as many apps as its plan allows, and this is none of them. An app counts
 * while a deployment of it is building, and once one has run. Call it before the deployment is added.
 */
export async function assertMayAddApp(
  { store, plans }: { readonly store: Pick<DeploymentStore, 'ofProjects'>; readonly plans: Plans },
  transaction: Transaction,
  project: TenantProject,
  appId: string,
): Promise<void> {
  const counted = () => store.ofProjects.countedApps(transaction, project.id)
  if ((await counted()).has(appId)) return
  // Counted one after the other, so that none slips in between. Taken after the lock of the app, by everybody.
  await lockByName(transaction, `room for apps of ${project.id}`)
  const mostApps = planNamed(plans, project.plan).apps
  if ((await counted()).size < mostApps) return
  throw new ApiError(
    'invalid_request',
    `name: the plan ${project.plan} of this project allows ${mostApps} apps, and it has them. Delete all deployments of ` +
      'an app that is not needed any more, or give the project a larger plan.',
    { field: 'name', most_apps: mostApps },
  )
}
