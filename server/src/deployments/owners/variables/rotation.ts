import type { Database, Transaction } from '../../../platform/database.ts'
import type { SecretBox } from '../../../platform/secrets.ts'
import { notifyChange } from '../../changes.ts'
import { isOutdated, outdatedFirst } from '../../instance-rows.ts'
import type { DeploymentSecrets } from '../../secrets.ts'
import { type RotatedDatabase, refreshReleases, releasesInUse } from '../../state/variables-of-apps/links.ts'
import { tablesOf } from '../../tables.ts'

/** Lets the instances of linked apps follow the rotation of a database's password. */
export interface LinkedApps {
  /**
   * Gives the new connection string of a database to the releases that have the old one, and lets their instances be replaced. The
   * new password works, and the lock of the database is the caller's. Resolves to false when nothing can have the old one.
   */
  follow(transaction: Transaction, rotated: RotatedDatabase): Promise<boolean>
  /** True when every instance that has a place was started with the current connection string of the database. */
  haveFollowed(databaseId: string): Promise<boolean>
}

export function createLinkedApps(given: {
  readonly database: Database
  readonly secretBox: SecretBox
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf' | 'formerOf'>
}): LinkedApps {
  const { database } = given
  return {
    async follow(transaction, rotated) {
      const releases = await refreshReleases(given, transaction, rotated)
      const active = releases.filter(({ status }) => status === 'running' || status === 'building')
      for (const { id, app_id, status } of active)
        if (status === 'running') await notifyChange(transaction, { appId: app_id, deploymentId: id })
      return active.length > 0
    },

    async haveFollowed(databaseId) {
      const releases = await releasesInUse(database, databaseId)
      // One that is about to start may have read its variables before.
      if (releases.some((row) => row.status === 'building' || outdatedFirst(row).length > 0)) return false
      const byId = new Map(releases.map((row) => [row.id, row]))
      if (byId.size === 0) return true
      const others = await tablesOf(database)
        .selectFrom('instances')
        .selectAll()
        .where('deployment_id', 'in', [...byId.keys()])
        .execute()
      return others.every((each) => {
        const row = byId.get(each.deployment_id)
        return row === undefined || !isOutdated(row, each)
      })
    },
  }
}
