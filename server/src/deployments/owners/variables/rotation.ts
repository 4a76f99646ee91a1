import type { Database } from '../../../platform/database.ts'
import { notifyChange } from '../../state/changes.ts'
import { countRotation } from '../../state/variables-of-apps/links.ts'

/**
 * Lets the instances of all releases with the connection string of a database be replaced. Call it when the new password of the database
 * works.
 */
export type ReplaceLinked = (databaseId: string) => Promise<void>

export function createReplaceLinked({ database }: { readonly database: Database }): ReplaceLinked {
  return (databaseId) =>
    database.transaction().execute(async (transaction) => {
      for (const { id, app_id, status } of await countRotation(transaction, databaseId)) {
        if (status === 'running') await notifyChange(transaction, { appId: app_id, deploymentId: id })
      }
    })
}
