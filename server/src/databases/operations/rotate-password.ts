import { invalidRequest } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import { connectionString, newPassword, scramVerifier } from '../credentials.ts'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import { isLockTimeout } from '../engines/sql-errors.ts'
import { enqueueReconcile } from '../job-queue.ts'
import { databaseLimits } from '../plan-limits.ts'
import type { DatabasesTables } from '../tables.ts'
import { lockDatabase, notAvailable, toApiError } from './rows.ts'

export interface RotationDependencies {
  readonly engine: Engine
  readonly plans: Plans
  readonly secrets: SecretBox
  /**
   * Writes outside of the request's transaction, on connections of its own: when all transactions of a pool ask that pool
   * for a second connection, none of them ever gets it.
   */
  readonly autonomous: Database
}

/** How long a request waits for the engine. */
const engineTimeoutMs = 10_000
/** The delay of the job that repairs a rotation that may have been interrupted. */
const repairAfterMs = 30_000

/** Gives a database a new password, first in the engine, then in its row. */
export async function rotatePassword(
  { engine, plans, secrets, autonomous }: RotationDependencies,
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<ResponseBody<'databases.create'>> {
  const row = await lockDatabase(transaction, project, id)
  if (row.status !== 'available') throw notAvailable()
  // Engine and row cannot change together. This job gives the engine the row's password, whichever that is then; it is
  // committed on its own, so that it exists also when the transaction fails.
  await enqueueReconcile(autonomous, id, new Date(Date.now() + repairAfterMs))
  const instance = await openInstanceOf(engine, row, AbortSignal.timeout(engineTimeoutMs)).catch(toApiError)
  const password = newPassword()
  const role = { name: id, verifier: await scramVerifier(password), limits: databaseLimits(planNamed(plans, row.plan)) }
  await instance.roles.ensure(role, AbortSignal.timeout(engineTimeoutMs)).catch((error: unknown) => {
    if (!isLockTimeout(error)) throw error
    throw invalidRequest({
      field: 'id',
      message: 'an open transaction in this database changes its role; end it first',
    })
  })
  await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ password: secrets.encrypt(password, id) })
    .where('id', '=', id)
    .execute()
  const { name, version, host, port, status } = row
  const address = connectionString({ name: id, password, host, port })
  return { id, name, type: 'postgresql', version, connection_string: address, status }
}
