import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { ApiError, invalidRequest } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { BatchedRead } from '../../platform/database/batcher.ts'
import type { Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { accountLimits, type Plans, planNamed, plansForTier } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { connectionString, newEngineName, newPassword } from './credentials.ts'
import { enqueueDrop, enqueueReconcile } from './jobs.ts'
import { databaseLimits } from './limits.ts'
import { type Engine, EngineError, openInstanceOf } from './postgres/engine.ts'
import { checkQuota, createDatabaseCount, lockAccount, type QuotaDependencies } from './quota.ts'
import { type Rotation, type RotationDependencies, rotatePassword } from './rotation.ts'
import { type DatabaseRow, type DatabasesTables, findDatabase, lockDatabase } from './rows.ts'

type Created = ResponseBody<'databases.create'>

/** The operations on databases. With a database id they throw `not_found` when the project has no such database. */
export interface DatabaseRequests {
  /** Throws `invalid_request` for an unknown version or plan, and when a limit of the project or account is reached. */
  create(transaction: Transaction, project: TenantProject, input: BodyOutput<'databases.create'>): Promise<Created>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'databases.list'>>>
  get(project: TenantProject, id: string, transaction?: Transaction): Promise<Detail>
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<void>
  restore(transaction: Transaction, project: TenantProject, id: string): Promise<Detail>
  rotatePassword(transaction: Transaction, project: TenantProject, id: string): Promise<Rotation>
  /** The databases of some projects, newest first, without deleted ones. */
  ofProjects(projectIds: readonly string[]): Promise<{ id: string; name: string; project_id: string }[]>
  /** Returns the number of a project's databases, without deleted databases. */
  readonly count: BatchedRead<string, number>
}

type RequestDependencies = CreationDependencies & DeletionDependencies & RotationDependencies

export function createDatabaseRequests(dependencies: RequestDependencies): DatabaseRequests {
  const { database } = dependencies
  return {
    create: (transaction, project, input) => createDatabase(dependencies, transaction, project, input),

    async list(project, page) {
      const all = database
        .withTables<DatabasesTables>()
        .selectFrom('databases')
        .selectAll()
        .where('project_id', '=', project.id)
      const { rows, next } = await readPage(all, page, 'id')
      return { body: { databases: rows.map(listItem) }, next }
    },

    get: async (project, id, transaction) =>
      detailOf(dependencies, await findDatabase(transaction ?? database, project, id)),

    delete: (transaction, project, id) => deleteDatabase(dependencies, transaction, project, id),
    restore: (transaction, project, id) => restoreDatabase(dependencies, transaction, project, id),
    rotatePassword: (transaction, project, id) => rotatePassword(dependencies, transaction, project, id),
    ofProjects: (projectIds) =>
      database
        .withTables<DatabasesTables>()
        .selectFrom('databases')
        .select(['id', 'name', 'project_id'])
        .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
        .where('status', '!=', 'deleting')
        .orderBy('id', 'desc')
        .execute(),

    count: createDatabaseCount(database),
  }
}

interface CreationDependencies extends QuotaDependencies {
  readonly engine: Engine
  readonly secrets: SecretBox
}

const defaultPlan = 'starter'

async function createDatabase(
  dependencies: CreationDependencies,
  transaction: Transaction,
  project: TenantProject,
  input: BodyOutput<'databases.create'>,
): Promise<ResponseBody<'databases.create'>> {
  const { engine, plans, secrets } = dependencies
  const plan = await choosePlan(dependencies, transaction, project, input.plan ?? defaultPlan)
  // Deletions also lock the account before rows.
  if (input.snapshot_id !== undefined) await lockAccount(transaction, project)
  const source = input.snapshot_id === undefined ? null : await lockSnapshot(transaction, project, input.snapshot_id)
  const version = await chooseVersion(engine, input.version ?? source?.version)
  if (source !== null) checkSnapshotFits(source, version, databaseLimits(planNamed(plans, plan)).bytes)
  await checkQuota(dependencies, transaction, project, plan)
  const id = newId('database')
  const roleName = newEngineName()
  const password = newPassword()
  const address = await engine.addressOf(transaction, version)
  await transaction
    .withTables<DatabasesTables>()
    .insertInto('databases')
    .values({
      id,
      role_name: roleName,
      project_id: project.id,
      name: input.name,
      plan,
      engine: engine.name,
      version,
      ...address,
      password: secrets.encrypt(password, id),
      status: 'provisioning',
      source_snapshot_id: source?.id ?? null,
    })
    .execute()
  await enqueueReconcile(transaction, id)
  return {
    id,
    name: input.name,
    type: 'postgresql',
    version,
    connection_string: connectionString({ user: roleName, name: roleName, password, ...address }),
    status: 'provisioning',
  }
}

async function choosePlan(
  { plans, tierOf }: Pick<CreationDependencies, 'plans' | 'tierOf'>,
  transaction: Transaction,
  project: TenantProject,
  plan: string,
): Promise<string> {
  const allowed = plansForTier(plans, await tierOf(transaction, project.accountId))
  if (allowed.includes(plan)) return plan
  throw invalidRequest({ field: 'plan', message: `must be one of: ${allowed.join(', ')}` })
}

async function chooseVersion(engine: Engine, version: string | undefined): Promise<string> {
  const versions = await engine.versions().catch(toApiError)
  const chosen = version ?? versions.at(-1)
  if (chosen !== undefined && versions.includes(chosen)) return chosen
  throw invalidRequest({ field: 'version', message: `must be one of: ${versions.join(', ')}` })
}

/** Converts an engine's error into an error for the client; the log has the reason. */
function toApiError(error: unknown): never {
  throw error instanceof EngineError ? new ApiError('server_error', error.message) : error
}

interface SourceSnapshot {
  readonly id: string
  readonly size_bytes: string | null
  readonly version: string
}

/** Locks the snapshot, so that it is not removed before the row of the new database refers to it. */
async function lockSnapshot(
  transaction: Transaction,
  project: TenantProject,
  snapshotId: string,
): Promise<SourceSnapshot> {
  const source = await transaction
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .innerJoin('databases', 'databases.id', 'snapshots.database_id')
    .select(['snapshots.id', 'snapshots.size_bytes', 'databases.version'])
    // PostgreSQL rejects some texts that are not ids, such as a text with a zero byte.
    .where('snapshots.id', '=', isId('snapshot', snapshotId) ? snapshotId : '')
    .where('snapshots.status', '=', 'available')
    .where('databases.project_id', '=', project.id)
    .forUpdate('snapshots')
    .executeTakeFirst()
  if (source !== undefined) return source
  throw invalidRequest({ field: 'snapshot_id', message: 'there is no such snapshot in this project' })
}

function checkSnapshotFits(source: SourceSnapshot, version: string, maxBytes: number): void {
  if (source.version !== version) {
    throw invalidRequest({ field: 'version', message: `must be ${source.version}, the version of the snapshot` })
  }
  if (Number(source.size_bytes) > maxBytes) {
    throw invalidRequest({ field: 'plan', message: `allows ${maxBytes} bytes, and the snapshot is larger` })
  }
}

interface DeletionDependencies extends QuotaDependencies {
  readonly retentionMs: number
}

/** Marks a database as deleted; jobs close it and remove it after the retention. */
async function deleteDatabase(
  dependencies: DeletionDependencies,
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<void> {
  await lockAccount(transaction, project)
  const row = await lockDatabase(transaction, project, id)
  if (row.status === 'deleting') return
  // A database that was never available holds nothing to restore.
  const dropAt = new Date(Date.now() + (row.available_at === null ? 0 : dependencies.retentionMs))
  await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    // An unfinished restoration is aborted, so its snapshot need not be kept.
    .set({
      status: 'deleting',
      drop_at: dropAt,
      failure: null,
      source_snapshot_id: null,
      restore_id: null,
      next_password: null,
    })
    .where('id', '=', id)
    .execute()
  await enqueueReconcile(transaction, id)
  await enqueueDrop(transaction, id, dropAt)
  await dropSurplus(dependencies, transaction, project)
}

/**
 * Limits the space of deleted databases: a project keeps as many as its plan allows, and an account as many as its own
 * limit allows. The oldest ones beyond these limits are removed at once.
 */
async function dropSurplus(
  { plans, tierOf, projectsOf }: QuotaDependencies,
  transaction: Transaction,
  project: TenantProject,
): Promise<void> {
  const trx = transaction.withTables<DatabasesTables>()
  const deletedBut = (projects: readonly string[], kept: number) =>
    trx
      .selectFrom('databases')
      .select('id')
      .where('project_id', 'in', [...projects])
      .where('status', '=', 'deleting')
      .orderBy('drop_at', 'desc')
      .offset(kept)
      .execute()
  const { databases } = accountLimits(plans, await tierOf(transaction, project.accountId))
  const surplus = [
    ...(await deletedBut([project.id], planNamed(plans, project.plan).databases)),
    ...(await deletedBut(await projectsOf(transaction, project.accountId), databases)),
  ]
  for (const id of new Set(surplus.map((row) => row.id))) {
    await trx
      .updateTable('databases')
      .set({ drop_at: new Date() })
      .where('id', '=', id)
      .where('status', '=', 'deleting')
      .execute()
    await enqueueDrop(transaction, id, new Date())
  }
}

async function restoreDatabase(
  dependencies: QuotaDependencies & { readonly engine: Pick<Engine, 'name' | 'open'> },
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<Detail> {
  await lockAccount(transaction, project)
  const row = await lockDatabase(transaction, project, id)
  if (row.status !== 'deleting' || row.drop_at === null || row.drop_at <= new Date()) {
    throw invalidRequest({ field: 'id', message: 'this database is not deleted, or is gone for good' })
  }
  await checkQuota(dependencies, transaction, project, row.plan)
  const restored = await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ status: 'provisioning', drop_at: null, provisioning_since: new Date() })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await enqueueReconcile(transaction, id)
  return detailOf(dependencies, restored)
}

type Detail = ResponseBody<'databases.get'>

function listItem({ id, name, version, plan, status, created_at }: DatabaseRow) {
  return { id, name, type: 'postgresql' as const, version, plan, status, created_at: created_at.toISOString() }
}

async function detailOf(
  { engine, plans }: { readonly engine: Pick<Engine, 'name' | 'open'>; readonly plans: Plans },
  row: DatabaseRow,
): Promise<Detail> {
  const limits = databaseLimits(planNamed(plans, row.plan))
  return {
    ...listItem(row),
    project_id: row.project_id,
    access: row.engine === 'embedded' ? 'local' : 'network',
    ...(await usageOf(engine, row)),
    max_size_bytes: limits.bytes,
    max_connections: limits.connections,
    read_only: row.restriction !== 'none',
    failure: row.failure,
    restorable_until: row.drop_at?.toISOString() ?? null,
  }
}

const usageTimeoutMs = 3_000

/**
 * Returns the current size and connections from the engine; `null` when it does not answer or the database is not in
 * use. The first call in a server opens the engine, which the leader has started.
 */
async function usageOf(
  engine: Pick<Engine, 'name' | 'open'>,
  row: Pick<DatabaseRow, 'role_name' | 'version' | 'port' | 'status' | 'engine'>,
): Promise<{ size_bytes: number | null; connections: number | null }> {
  const unknown = { size_bytes: null, connections: null }
  const { role_name: name, status } = row
  if (status !== 'available') return unknown
  const answered = new AbortController()
  const ask = async () => {
    const { statistics } = await openInstanceOf(engine, row, answered.signal)
    const [sizes, connections] = await Promise.all([statistics.sizes([name]), statistics.connections(name)])
    return { size_bytes: sizes.get(name) ?? null, connections }
  }
  const timeout = sleep(usageTimeoutMs, unknown, { signal: answered.signal }).catch(() => unknown)
  const first = await Promise.race([ask().catch(() => unknown), timeout])
  answered.abort()
  return first
}
