import type { Database } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import { scramVerifier } from '../credentials.ts'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import type { Instance } from '../engines/instance.ts'
import { databaseLimits } from '../plan-limits.ts'
import type { DatabaseRow, DatabasesTables } from '../tables.ts'

export interface RoleDependencies {
  readonly plans: Plans
  readonly secrets: SecretBox
}

/** Gives the engine the password and limits of the row. */
export async function ensureRole(
  { plans, secrets }: RoleDependencies,
  instance: Instance,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const verifier = await scramVerifier(secrets.decrypt(row.password, row.id))
  await instance.roles.ensure({ name: row.id, verifier, limits: databaseLimits(planNamed(plans, row.plan)) }, signal)
}

/** Repairs a password rotation that was interrupted between engine and row: the row's password holds. */
export async function reapplyPassword(
  dependencies: RoleDependencies & { readonly database: Database; readonly engine: Engine },
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const instance = await openInstanceOf(dependencies.engine, row, signal)
  await dependencies.database.transaction().execute(async (transaction) => {
    // The lock keeps a rotation from changing the password between reading it here and giving it to the engine.
    const locked = await transaction
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .selectAll()
      .where('id', '=', row.id)
      .where('status', '=', 'available')
      .forUpdate()
      .executeTakeFirst()
    if (locked !== undefined) await ensureRole(dependencies, instance, locked, signal)
  })
}
