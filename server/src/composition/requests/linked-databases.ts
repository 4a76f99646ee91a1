import { queueOf } from '../../databases/job-queue.ts'
import type { LinkRequests } from '../../deployments/app-requests/links.ts'
import type { ReplaceLinked } from '../../deployments/owners/variables/rotation.ts'
import type { RotatedDatabase } from '../../deployments/state/variables-of-apps/links.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Transaction } from '../../platform/database.ts'
import { enqueue, type Task } from '../../platform/jobs.ts'

/** Links of databases to apps, as the feature of databases needs them. */
export interface DatabaseLinks extends Pick<LinkRequests, 'create'> {
  /**
   * Gives the new connection string to releases that have the old one, under the lock of the database. Resolves to false
   * when there are none.
   */
  refresh(transaction: Transaction, rotated: RotatedDatabase): Promise<boolean>
}

/** The job that replaces the instances of linked apps once the new password of a database works. */
const followTask = 'databases.follow_password'

/** Returns the handlers of databases, whose creation can link an app, and whose passwords linked apps follow. */
export function withLinks(
  handlers: HandlersOf<'databases'>,
  links: DatabaseLinks,
): Pick<HandlersOf<'databases'>, 'databases.create' | 'databases.rotatePassword'> {
  return {
    'databases.create': async (call) => {
      const created = await handlers['databases.create'](call)
      const { link } = call.body
      if (link !== undefined) await links.create(call.transaction, call, { ...link, database: created.id })
      return created
    },
    'databases.rotatePassword': async (call) => {
      const body = await handlers['databases.rotatePassword'](call)
      const { id: databaseId, connection_string: connectionString } = body
      const rotated = { projectId: call.project.id, databaseId, connectionString }
      if (await links.refresh(call.transaction, rotated)) {
        // A job: the engine may not take the password at once, and this server may end.
        const payload = { database_id: databaseId }
        await enqueue(call.transaction, { task: followTask, payload, queue: queueOf(databaseId) })
      }
      return body
    },
  }
}

/**
 * Returns the task of the leader that lets linked apps follow a password.
 *
 * @param reconcile gives the engine the password of a database; rejects when it does not take it, and is tried again then
 */
export function followPasswords(
  reconcile: (databaseId: string, signal: AbortSignal) => Promise<void>,
  replace: ReplaceLinked,
): Readonly<Record<string, Task>> {
  return {
    async [followTask](job, signal) {
      const databaseId = String(job['database_id'])
      await reconcile(databaseId, signal)
      await replace(databaseId)
    },
  }
}
