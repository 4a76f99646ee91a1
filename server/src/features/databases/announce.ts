import type { Announce } from '../../platform/announce.ts'
import type { Transaction } from '../../platform/database.ts'
import type { AnnounceDatabase } from './reconciler.ts'

/** Announces database events to the webhooks of the project's account, in the transaction of the change. */
export function databaseAnnouncements({
  announce,
  accountOf,
}: {
  readonly announce: Announce
  /** Returns the account of a project. */
  readonly accountOf: (transaction: Transaction, projectId: string) => Promise<string>
}): AnnounceDatabase {
  return async (transaction, { projectId, databaseId, ...happened }) => {
    const accountId = await accountOf(transaction, projectId)
    const ids = { database_id: databaseId, project_id: projectId }
    if (happened.event === 'database.failed') {
      const { event, failure } = happened
      await announce(transaction, { accountId, projectId, event, data: { ...ids, failure } })
    } else {
      await announce(transaction, { accountId, projectId, event: happened.event, data: ids })
    }
  }
}
