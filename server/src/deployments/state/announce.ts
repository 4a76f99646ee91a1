import type { Transaction } from '../../platform/database.ts'
import type { App } from './apps.ts'
import type { DeploymentFailure } from './failure.ts'
import type { DeploymentRow } from './tables.ts'

/** The outcome of a deployment. */
export type Announcement = {
  readonly row: Pick<DeploymentRow, 'id' | 'project_id' | 'account_id'>
  readonly url: string
} & (
  | { readonly event: 'deployment.succeeded' | 'deployment.canceled' }
  | { readonly event: 'deployment.failed'; readonly failure: DeploymentFailure }
)

/** Writes the event and its deliveries in the transaction of the change. */
export type Announce = (transaction: Transaction, announcement: Announcement) => Promise<void>

/** Returns the public address of an app. */
export type UrlOf = (app: Pick<App, 'address'>) => string
