import { ApiError } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { connectionString, newEngineName, newPassword } from '../credentials.ts'
import { enqueueLogins } from '../job-queue.ts'
import { loginOf, otherLoginOf } from '../logins.ts'
import type { DatabasesTables } from '../tables.ts'
import { lockDatabase, notAvailable } from './rows.ts'

export interface RotationDependencies {
  readonly database: Database
  readonly secrets: SecretBox
}

export interface Rotation {
  readonly body: ResponseBody<'databases.create'>
  /** Waits until the engine has the new password; call it after the transaction was committed. */
  readonly applied: () => Promise<void>
}

const timeoutMs = 10_000
const pollMs = 25

/**
 * Gives a database a new password. A job of the leader passes it to the engine, because only the leader changes the
 * roles that log in, one change after the other. If the engine does not have the password of an earlier rotation yet,
 * this returns that password again.
 */
export async function rotatePassword(
  { database, secrets }: RotationDependencies,
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<Rotation> {
  const row = await lockDatabase(transaction, project, id)
  if (row.status !== 'available') throw notAvailable()
  const next = row.next_password ?? secrets.encrypt(newPassword(), id)
  const second = row.second_role ?? newEngineName()
  await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ next_password: next, second_role: second })
    .where('id', '=', id)
    .execute()
  await enqueueLogins(transaction, id)
  const { name, role_name, version, host, port, status } = row
  const user = otherLoginOf({ ...row, second_role: second }) ?? loginOf(row)
  const address = connectionString({ user, name: role_name, password: secrets.decrypt(next, id), host, port })
  return {
    body: { id, name, type: 'postgresql', version, connection_string: address, status },
    applied: () => untilApplied(database, id),
  }
}

/**
 * Resolves when the next password is the current password, and the former password has ended unless apps still use it.
 */
async function untilApplied(database: Database, id: string): Promise<void> {
  const timeout = AbortSignal.timeout(timeoutMs)
  while (await isPending(database, id)) {
    if (timeout.aborted) {
      const message = 'The database does not take a new password at the moment. It gets it later; rotate it again then.'
      throw new ApiError('server_error', message)
    }
    await sleepUntilAborted(pollMs, timeout)
  }
}

async function isPending(database: Database, id: string): Promise<boolean> {
  const row = await database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .select(['next_password', 'former_ends_at'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return false
  return row.next_password !== null || (row.former_ends_at !== null && row.former_ends_at <= new Date())
}
