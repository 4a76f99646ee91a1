import type { Database } from '../../platform/database.ts'
import { enqueueDrop, enqueueReconcile, enqueueSnapshot } from '../job-queue.ts'
import type { DatabasesTables } from '../tables.ts'

/**
 * Enqueues a job for everything that an earlier server left unfinished. Time without a server does not count towards
 * the retry limit.
 */
export async function resume(database: Database): Promise<void> {
  const db = database.withTables<DatabasesTables>()
  const provisioning = await db
    .updateTable('databases')
    .set({ provisioning_since: new Date() })
    .where('status', '=', 'provisioning')
    .returning('id')
    .execute()
  for (const { id } of provisioning) await enqueueReconcile(database, id)
  const due = await db.selectFrom('databases').select('id').where('drop_at', '<=', new Date()).execute()
  for (const { id } of due) await enqueueDrop(database, id, new Date())
  const snapshots = await db
    .updateTable('snapshots')
    .set({ creating_since: new Date() })
    .where('status', 'in', ['creating', 'deleting'])
    .returning(['id', 'database_id'])
    .execute()
  for (const { id, database_id } of snapshots) await enqueueSnapshot(database, id, database_id)
}
