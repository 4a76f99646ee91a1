import type { Totals } from '../../platform/account-limits.ts'
import type { Transaction } from '../../platform/database.ts'
import type { DeploymentStore } from '../rows.ts'

/** Throws `invalid_request` when the account may begin no further build now. Call it before the deployment is added. */
export async function assertMayBuild(
  given: {
    readonly store: Pick<DeploymentStore, 'ofProjects'>
    readonly totals: Pick<Totals, 'assertRoom' | 'takeOne'>
  },
  transaction: Transaction,
  accountId: string,
): Promise<void> {
  const { store, totals } = given
  await totals.assertRoom(transaction, accountId, 'building', () =>
    store.ofProjects.countBuilding(transaction, accountId),
  )
  await totals.takeOne(transaction, accountId, 'deployments_per_hour')
}
