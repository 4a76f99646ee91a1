import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { newPassword, scramVerifier } from '../credentials.ts'
import { loginOf } from '../logins.ts'
import { databaseLimits } from '../plan-limits.ts'
import type { DatabaseRow } from '../tables.ts'
import type { Instance } from './instance.ts'

export interface RoleDependencies {
  readonly plans: Plans
  readonly secrets: SecretBox
  readonly logger: Logger
}

/** Gives the engine the roles of a row, with passwords and limits. New roles cannot log in yet. */
export async function ensureRoles(
  dependencies: RoleDependencies,
  instance: Instance,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const { role_name: owner, second_role: second } = row
  const passwordOf = (role: string) => (role === loginOf(row) ? row.password : row.former_password)
  await ensureRole(dependencies, instance, row, { role: owner, password: passwordOf(owner) }, signal)
  if (second !== null)
    await ensureRole(dependencies, instance, row, { role: second, password: passwordOf(second) }, signal)
}

/**
 * Gives the engine one role of the row.
 *
 * @param given.password encrypted; `null` for a random password that nobody knows
 */
export async function ensureRole(
  { plans, secrets, logger }: RoleDependencies,
  instance: Instance,
  row: DatabaseRow,
  { role: name, password }: { readonly role: string; readonly password: Buffer | null },
  signal: AbortSignal,
): Promise<void> {
  const { role_name: owner } = row
  const verifier = await scramVerifier(password === null ? newPassword() : secrets.decrypt(password, row.id))
  const limits = databaseLimits(planNamed(plans, row.plan))
  if (name === owner) return instance.roles.ensure({ name, verifier, limits }, signal)
  await instance.roles.ensureSecond({ name, owner, verifier, connections: limits.connections }, signal)
  await instance.roles.copySettings([{ name, owner }], signal).catch((err: unknown) => {
    // A user's setting may be impossible to copy.
    if (!signal.aborted) logger.warn({ err, database: row.id }, 'settings of a database could not be copied')
  })
}
