import type { DeploymentFailure } from '../../contract/resources/deployments.ts'
import type { DeploymentRow } from '../state/store.ts'
import type { DeployParts } from './parts.ts'

/** Makes a deployment `failed` and announces it in one transaction; does nothing when it is wanted in another way now. */
export async function failDeployment(
  parts: Pick<DeployParts, 'database' | 'store' | 'announce' | 'apps' | 'urlOf'>,
  row: DeploymentRow,
  failure: DeploymentFailure,
): Promise<void> {
  const app = await parts.apps.get(row.app_id)
  await parts.database.transaction().execute(async (transaction) => {
    if (!(await parts.store.fail(transaction, row, failure))) return
    await parts.announce(transaction, { event: 'deployment.failed', row, url: parts.urlOf(app), failure })
  })
}
