import type { Database } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { scramVerifier } from '../credentials.ts'
import { databaseLimits } from '../plan-limits.ts'
import type { DatabaseRow, DatabasesTables } from '../tables.ts'
import { type Engine, openInstanceOf } from './engine.ts'
import type { Instance } from './instance.ts'

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
  await instance.roles.ensure(
    { name: row.role_name, verifier, limits: databaseLimits(planNamed(plans, row.plan)) },
    signal,
  )
}

/**
 * Gives the engine the password of the row of a database in use. Several may do so at once, and the row may change
 * meanwhile: each reads it again afterwards, and repeats this until the engine has what the row says. No transaction of the
 * state database is open while the engine is waited for.
 */
export async function applyPassword(
  dependencies: RoleDependencies & { readonly database: Database; readonly engine: Pick<Engine, 'name' | 'open'> },
  databaseId: string,
  signal: AbortSignal,
): Promise<void> {
  let row = await findAvailable(dependencies.database, databaseId)
  while (row !== undefined) {
    const instance = await openInstanceOf(dependencies.engine, row, signal)
    await ensureRole(dependencies, instance, row, signal)
    const now = await findAvailable(dependencies.database, databaseId)
    if (now === undefined || now.password.equals(row.password)) return
    row = now
  }
}

const findAvailable = (database: Database, id: string): Promise<DatabaseRow | undefined> =>
  database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .selectAll()
    .where('id', '=', id)
    .where('status', '=', 'available')
    .executeTakeFirst()
