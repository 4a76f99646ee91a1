import { ApiError } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import {
  connectionString,
  connectionStringOf,
  ensureRole,
  loginOf,
  newEngineName,
  newPassword,
  otherLoginOf,
  type RoleDependencies,
} from './credentials.ts'
import { enqueueLogins } from './jobs.ts'
import { databaseLimits } from './limits.ts'
import { type Engine, type Instance, openInstanceOf } from './postgres/engine.ts'
import { type DatabaseRow, type DatabasesTables, lockDatabase, notAvailable } from './rows.ts'

export interface RotationDependencies {
  readonly database: Database
  readonly secrets: SecretBox
}

export interface Rotation {
  readonly body: ResponseBody<'databases.create'>
  /** Waits until the engine has the new password; call it after the transaction was committed. */
  readonly applied: () => Promise<void>
}

/** A request waits for this time until the engine has the new password. */
const applyTimeoutMs = 10_000
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

/** Resolves when the next password is current, and the former password has ended unless apps still use it. */
async function untilApplied(database: Database, id: string): Promise<void> {
  const timeout = AbortSignal.timeout(applyTimeoutMs)
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

export interface LinkedApps {
  /**
   * Gives releases the new connection string of a database, and lets instances with the former string be replaced.
   * Resolves to false when there are no such releases.
   */
  follow(
    transaction: Transaction,
    rotated: { readonly projectId: string; readonly databaseId: string; readonly connectionString: string },
  ): Promise<boolean>
  /** True when every instance in a slot was started with the current connection string of the database. */
  haveFollowed(databaseId: string): Promise<boolean>
  /** The time that a replaced instance may take to finish its requests. */
  readonly leaveMs: number
}

interface LoginsDependencies extends RoleDependencies {
  readonly database: Database
  readonly engine: Engine
}

/** The longest time that the former password works while linked apps use it. */
const formerDeadlineMs = 15 * 60_000

/**
 * Does the next step of a rotation: it lets the other role log in with the next password, makes this password current,
 * and ends the former password when no linked app uses it any more. It can be repeated, no matter how far an earlier
 * call got. Nothing else may change the logins of the database at the same time.
 */
export async function changeLogins(
  dependencies: LoginsDependencies,
  linked: LinkedApps,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const rotates = row.next_password !== null && row.status === 'available'
  if (row.former_password === null && !rotates) return
  const instance = await openInstanceOf(dependencies.engine, row, signal)
  if (row.former_password !== null) {
    // With two roles, the next password can only replace the former password.
    if (!rotates && !isOver(row)) return awaitFollowers(dependencies, linked, instance, row, signal)
    await endFormer(dependencies, instance, row, signal)
  }
  if (!rotates) return
  const rotated = await rotate(dependencies, linked, instance, row, signal)
  if (rotated === null) return
  if (isOver(rotated)) await endFormer(dependencies, instance, rotated, signal)
  else await awaitFollowers(dependencies, linked, instance, rotated, signal)
}

const isOver = ({ former_ends_at }: DatabaseRow): boolean => former_ends_at !== null && former_ends_at <= new Date()

/** Lets both roles log in. Returns the new row; `null` if the database was deleted or is being restored. */
async function rotate(
  dependencies: LoginsDependencies,
  linked: LinkedApps,
  instance: Instance,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<DatabaseRow | null> {
  const { database, secrets } = dependencies
  const { role_name: owner, next_password: password } = row
  const role = otherLoginOf(row)
  if (role === null || password === null) throw new Error('a rotation has no role and no password')
  await ensureRole(dependencies, instance, row, { role, password }, signal)
  await instance.roles.allowUntil(role, null, signal)
  // A database that is far too large refuses logins for some time.
  if (row.restriction !== 'no_login') await instance.roles.admit(owner, [role], signal)
  return database.transaction().execute((transaction) => accept(transaction, secrets, linked, row))
}

async function accept(
  transaction: Transaction,
  secrets: SecretBox,
  linked: LinkedApps,
  { id, next_password }: DatabaseRow,
): Promise<DatabaseRow | null> {
  const trx = transaction.withTables<DatabasesTables>()
  // A transaction that links an app holds the lock; afterwards `follow` finds the app.
  const row = await trx.selectFrom('databases').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  if (row?.status !== 'available' || next_password === null || row.next_password === null) return null
  const login = row.login === 'owner' ? 'second' : 'owner'
  const next = { ...row, login, password: row.next_password } as const
  const connectionString = connectionStringOf(secrets, next)
  const hasApps = await linked.follow(transaction, { projectId: row.project_id, databaseId: id, connectionString })
  return trx
    .updateTable('databases')
    .set({
      login,
      password: row.next_password,
      next_password: null,
      former_password: row.password,
      former_ends_at: new Date(Date.now() + (hasApps ? formerDeadlineMs : 0)),
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Ends the former password soon after the last instance has stopped needing it. */
async function awaitFollowers(
  { database, plans }: LoginsDependencies,
  { haveFollowed, leaveMs }: LinkedApps,
  { roles }: Instance,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const { id, role_name: owner, former_ends_at: deadline, former_password } = row
  const former = otherLoginOf(row)
  if (former === null || deadline === null) return
  // The engine ends the password even if no server runs then.
  await roles.allowUntil(former, deadline, signal)
  // PostgreSQL counts the sessions of each role separately.
  await roles.limitDatabase(owner, -1, connectionsOf(plans, row), signal)
  if (!(await haveFollowed(id))) return
  const end = new Date(Date.now() + leaveMs)
  if (end >= deadline) return
  await database
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ former_ends_at: end })
    .where('id', '=', id)
    .where('former_password', '=', former_password)
    .execute()
}

async function endFormer(
  { database, plans, logger }: LoginsDependencies,
  { roles }: Instance,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const { id, role_name: owner, former_password } = row
  const former = otherLoginOf(row)
  if (former !== null) {
    await roles.limitDatabase(owner, connectionsOf(plans, row), -1, signal)
    await roles.endLogin(former, owner, signal)
  }
  await database
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ former_password: null, former_ends_at: null })
    .where('id', '=', id)
    .where('former_password', '=', former_password)
    .execute()
  logger.info({ database: id }, 'the former password of a database has ended')
}

const connectionsOf = (plans: LoginsDependencies['plans'], { plan }: DatabaseRow): number =>
  databaseLimits(planNamed(plans, plan)).connections

export function createRotationsCheck({
  database,
  engine,
  logger,
  change,
}: Pick<LoginsDependencies, 'database' | 'engine' | 'logger'> & {
  readonly change: (databaseId: string, signal: AbortSignal) => Promise<void>
}): (signal: AbortSignal) => Promise<void> {
  return async (signal) => {
    const rows = await database
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .select('id')
      .where('engine', '=', engine.name)
      .where((where) => where.or([where('next_password', 'is not', null), where('former_password', 'is not', null)]))
      .execute()
    await Promise.all(
      rows.map(({ id }) =>
        change(id, signal).catch((err: unknown) => {
          if (!signal.aborted) logger.warn({ err, database: id }, 'the rotation of a password cannot continue yet')
        }),
      ),
    )
  }
}

/**
 * Returns a function that copies the owners' settings to second roles. A session of a second role is the owner, so its
 * `alter role current_user` changes the owner.
 */
export function createSettingsCheck({
  database,
  engine,
}: Pick<LoginsDependencies, 'database' | 'engine'>): (signal: AbortSignal) => Promise<void> {
  return async (signal) => {
    const rows = await database
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .selectAll()
      .where('status', '=', 'available')
      .where('engine', '=', engine.name)
      .where('login', '=', 'second')
      .execute()
    for (const [, [first, ...more]] of Map.groupBy(rows, ({ version }) => version)) {
      if (first === undefined) continue
      const instance = await openInstanceOf(engine, first, signal)
      const roles = [first, ...more].map((row) => ({ name: loginOf(row), owner: row.role_name }))
      await instance.roles.copySettings(roles, signal)
    }
  }
}
