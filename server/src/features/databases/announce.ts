import type { Announce } from '../../platform/announce.ts'
import type { Transaction } from '../../platform/database.ts'
import type { AnnounceDatabase } from './reconciler.ts'

export function databaseAnnouncements({
  announce,
  accountOf,
}: {
  readonly announce: Announce
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
