import { notify } from '../../platform/database/notifications.ts'
import type { Transaction } from '../../platform/database.ts'

/** The channel on which requests tell the leader what they have changed. */
export const changesChannel = 'fairlead_deployments'

/** A deployment that an owner has changed or deleted, or a new app. It is a hint: the rows say what holds now. */
export interface Changed {
  readonly appId: string
  /** Null for a new app. */
  readonly deploymentId: string | null
}

/** Tells the leader of a change once the transaction has committed. */
export function notifyChange(transaction: Transaction, { appId, deploymentId }: Changed): Promise<void> {
  return notify(transaction, changesChannel, deploymentId === null ? appId : `${appId} ${deploymentId}`)
}

export function parseChange(payload: string): Changed {
  const [appId = '', deploymentId = null] = payload.split(' ')
  return { appId, deploymentId }
}
