import { notify } from '../../platform/database/notifications.ts'
import type { Transaction } from '../../platform/database.ts'

export const changesChannel = 'fairlead_deployments'

/** A deployment that its owner has changed or deleted, or a new app. It is a hint: only the rows count. */
export interface Changed {
  readonly appId: string
  /** The changed deployment; null for a new app. */
  readonly deploymentId: string | null
}

/** Notifies the leader of a change once the transaction has committed. */
export function notifyChange(transaction: Transaction, { appId, deploymentId }: Changed): Promise<void> {
  return notify(transaction, changesChannel, deploymentId === null ? appId : `${appId} ${deploymentId}`)
}

export function parseChange(payload: string): Changed {
  const [appId = '', deploymentId = null] = payload.split(' ')
  return { appId, deploymentId }
}
