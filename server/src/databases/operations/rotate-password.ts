import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Plans } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { connectionString, newPassword } from '../credentials.ts'
import type { Engine } from '../engines/engine.ts'
import { applyPassword } from '../engines/password.ts'
import { enqueueReconcile } from '../job-queue.ts'
import type { DatabasesTables } from '../tables.ts'
import { lockDatabase, notAvailable, toApiError } from './rows.ts'

export interface RotationDependencies {
  readonly database: Database
  readonly engine: Pick<Engine, 'name' | 'open'>
  readonly plans: Plans
  readonly secrets: SecretBox
}

export interface Rotation {
  readonly body: ResponseBody<'databases.create'>
  /** Gives the engine the new password; to be called when the transaction has been committed. */
  readonly apply: () => Promise<void>
}

/** How long a request waits for the engine. */
const engineTimeoutMs = 10_000
/** The delay of the job that gives the engine the password where the request could not. */
const repairAfterMs = 30_000

/**
 * Gives a database a new password: first its row, then the engine. The engine is asked after the commit, because it may keep
 * a request waiting, which would hold one of the few transactions of all requests meanwhile.
 */
export async function rotatePassword(
  dependencies: RotationDependencies,
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<Rotation> {
  const row = await lockDatabase(transaction, project, id)
  if (row.status !== 'available') throw notAvailable()
  const password = newPassword()
  await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ password: dependencies.secrets.encrypt(password, id) })
    .where('id', '=', id)
    .execute()
  await enqueueReconcile(transaction, id, new Date(Date.now() + repairAfterMs))
  const { name, role_name, version, host, port, status } = row
  const address = connectionString({ name: role_name, password, host, port })
  return {
    body: { id, name, type: 'postgresql', version, connection_string: address, status },
    apply: () => applyPassword(dependencies, id, AbortSignal.timeout(engineTimeoutMs)).catch(toApiError),
  }
}
