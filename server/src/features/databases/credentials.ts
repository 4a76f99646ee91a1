import { createHash, createHmac, pbkdf2, randomBytes, randomInt } from 'node:crypto'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { databaseLimits } from './limits.ts'
import type { Instance } from './postgres/engine.ts'
import type { DatabaseRow, DatabasesTables } from './rows.ts'

interface LinkedDatabase {
  readonly name: string
  readonly connectionString: string
}

/**
 * Returns a function that reads databases of a project by their ids, without databases that are being deleted. Locks
 * the rows in share mode: a password rotation then waits for releases that get the old password, and finds them.
 */
export function createLinkedDatabases(secrets: SecretBox) {
  return async (
    on: Database | Transaction,
    projectId: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, LinkedDatabase>> => {
    if (ids.length === 0) return new Map()
    const rows = await on
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .select(['id', 'role_name', 'second_role', 'login', 'name', 'host', 'port', 'password'])
      .where('project_id', '=', projectId)
      .where('status', '<>', 'deleting')
      .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
      .forShare()
      .execute()
    return new Map(rows.map((row) => [row.id, { name: row.name, connectionString: connectionStringOf(secrets, row) }]))
  }
}

export const connectionStringOf = (
  secrets: SecretBox,
  row: Pick<DatabaseRow, 'id' | 'role_name' | 'second_role' | 'login' | 'host' | 'port' | 'password'>,
): string => {
  const { id, role_name: name, host, port, password } = row
  return connectionString({ user: loginOf(row), name, password: secrets.decrypt(password, id), host, port })
}

export function connectionString(options: {
  readonly user: string
  readonly name: string
  readonly password: string
  readonly host: string
  readonly port: number
}): string {
  const { user, name, password, host, port } = options
  return `postgresql://${user}:${password}@${host.includes(':') ? `[${host}]` : host}:${port}/${name}`
}

type LoginColumns = Pick<DatabaseRow, 'role_name' | 'second_role' | 'login'>

export function loginOf({ role_name, second_role, login }: LoginColumns): string {
  return login === 'second' && second_role !== null ? second_role : role_name
}

/** Returns the name of the role that the next rotation lets log in; null before the first rotation. */
export function otherLoginOf({ role_name, second_role, login }: LoginColumns): string | null {
  return login === 'second' ? role_name : second_role
}

export function activeLogins(row: LoginColumns & Pick<DatabaseRow, 'former_password'>): string[] {
  const former = row.former_password === null ? null : otherLoginOf(row)
  return [loginOf(row), ...(former === null ? [] : [former])]
}

export function rolesOf({ role_name, second_role }: Pick<LoginColumns, 'role_name' | 'second_role'>): string[] {
  return second_role === null ? [role_name] : [role_name, second_role]
}

/**
 * Returns a name for a role, a database or a copy in the engine: 26 random letters. PostgreSQL shows the names to all
 * users of an instance, so they reveal nothing about the tenant, the project or the id.
 */
export function newEngineName(): string {
  return Array.from({ length: 26 }, () => String.fromCharCode(randomInt(97, 123))).join('')
}

/** Returns a password of 256 random bits, in characters that need no escaping in a URL. */
export function newPassword(): string {
  return randomBytes(32).toString('base64url')
}

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

/** PostgreSQL's default. More iterations would not make a random password harder to guess. */
const iterations = 4096

/**
 * Computes the verifier that PostgreSQL stores for a password (RFC 5803, SCRAM-SHA-256). The password itself is never
 * sent to the engine, where a statement may end up in a log.
 */
async function scramVerifier(password: string, salt: Buffer = randomBytes(16)): Promise<string> {
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const keyed = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const storedKey = createHash('sha256').update(keyed(salted, 'Client Key')).digest()
  const serverKey = keyed(salted, 'Server Key')
  const [saltText, storedText, serverText] = [salt, storedKey, serverKey].map((bytes) => bytes.toString('base64'))
  return `SCRAM-SHA-256$${iterations}:${saltText}$${storedText}:${serverText}`
}
