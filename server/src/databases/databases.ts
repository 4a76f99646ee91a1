import { sql } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../contract/errors.ts'
import { isId } from '../contract/ids.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../http/page.ts'
import type { TenantProject } from '../http/principal.ts'
import { createBatcher } from '../platform/database/batcher.ts'
import { type Database, lockByName, type Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { planNamed, plansForTier } from '../platform/plans.ts'
import { connectionString, newPassword, scramVerifier } from './credentials.ts'
import { EngineError } from './engine.ts'
import { figuresOf } from './figures.ts'
import { isLocked } from './instance.ts'
import { enqueueDrop, enqueueSettle } from './jobs.ts'
import { limitsOf } from './limits.ts'
import type { DatabaseParts } from './parts.ts'
import type { DatabaseRow, DatabasesTables } from './tables.ts'

type Detail = ResponseBody<'databases.get'>
type Created = ResponseBody<'databases.create'>

export interface Databases {
  /** Throws `invalid_request` on a version or plan that there is not, and when the project has all that it may. */
  create(transaction: Transaction, project: TenantProject, input: BodyOutput<'databases.create'>): Promise<Created>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'databases.list'>>>
  /** Throws `not_found`, as all that follow. */
  get(project: TenantProject, id: string, transaction?: Transaction): Promise<Detail>
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<void>
  restore(transaction: Transaction, project: TenantProject, id: string): Promise<Detail>
  rotatePassword(transaction: Transaction, project: TenantProject, id: string): Promise<Created>
  /** How many a project has, deleted ones not counted. */
  count(projectId: string): Promise<number>
}

const defaultPlan = 'starter'
/** Of an engine that a request waits for. */
const engineTimeoutMs = 10_000
/** When a rotation that may not have been finished is looked after. */
const healMs = 30_000

export function createDatabases(parts: DatabaseParts): Databases {
  const { engine, plans, secrets } = parts
  const db = parts.database.withTables<DatabasesTables>()

  const find = async (trx: Transaction, project: TenantProject, id: string): Promise<DatabaseRow> => {
    const row = await trx
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .selectAll()
      .where('id', '=', id)
      .where('project_id', '=', project.id)
      .forUpdate()
      .executeTakeFirst()
    if (row === undefined) throw notFound()
    return row
  }

  const choosePlan = async (transaction: Transaction, project: TenantProject, plan: string): Promise<string> => {
    const allowed = plansForTier(plans, await parts.tierOf(transaction, project.accountId))
    if (allowed.includes(plan)) return plan
    throw invalidRequest({ field: 'plan', message: `must be one of: ${allowed.join(', ')}` })
  }

  const chooseVersion = async (version: string | undefined): Promise<string> => {
    const versions = await engine.versions().catch((error: unknown) => {
      throw error instanceof EngineError ? new ApiError('server_error', error.message) : error
    })
    const chosen = version ?? versions.at(-1)
    if (chosen !== undefined && versions.includes(chosen)) return chosen
    throw invalidRequest({ field: 'version', message: `must be one of: ${versions.join(', ')}` })
  }

  /** One after the other within a project, so that two at once cannot both take the last place. */
  const takePlace = async (transaction: Transaction, project: TenantProject): Promise<void> => {
    await lockByName(transaction, `databases ${project.id}`)
    const most = planNamed(plans, project.plan).databases
    const { total } = await counted(transaction).where('project_id', '=', project.id).executeTakeFirstOrThrow()
    if (Number(total) < most) return
    throw new ApiError(
      'invalid_request',
      `The plan ${project.plan} of this project allows ${most} databases. Delete one, or use a project with a larger plan.`,
      { max_databases: most },
    )
  }

  const counted = (on: Database | Transaction) =>
    on
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .select(({ fn }) => fn.countAll<string>().as('total'))
      .where('status', '!=', 'deleting')

  /** The snapshot that a new database begins with, held so that it is not removed meanwhile. */
  const sourceOf = async (transaction: Transaction, project: TenantProject, snapshotId: string) => {
    // What cannot be an id is not asked for: the database would choke on some of it.
    const wanted = isId('snapshot', snapshotId) ? snapshotId : ''
    const source = await transaction
      .withTables<DatabasesTables>()
      .selectFrom('snapshots')
      .innerJoin('databases', 'databases.id', 'snapshots.database_id')
      .select(['snapshots.id', 'snapshots.size_bytes', 'databases.version'])
      .where('snapshots.id', '=', wanted)
      .where('snapshots.status', '=', 'available')
      .where('databases.project_id', '=', project.id)
      .forUpdate('snapshots')
      .executeTakeFirst()
    if (source !== undefined) return source
    throw invalidRequest({ field: 'snapshot_id', message: 'there is no such snapshot in this project' })
  }

  /** Those that are kept deleted are as many as may be there; the oldest give way, so that their space is bounded. */
  const letOldestGo = async (transaction: Transaction, project: TenantProject): Promise<void> => {
    const trx = transaction.withTables<DatabasesTables>()
    const surplus = await trx
      .selectFrom('databases')
      .select('id')
      .where('project_id', '=', project.id)
      .where('status', '=', 'deleting')
      .orderBy('drop_at', 'desc')
      .offset(planNamed(plans, project.plan).databases)
      .execute()
    for (const { id } of surplus) {
      await trx.updateTable('databases').set({ drop_at: new Date() }).where('id', '=', id).execute()
      await enqueueDrop(transaction, id, new Date())
    }
  }

  const detail = async (row: DatabaseRow): Promise<Detail> => {
    const limits = limitsOf(planNamed(plans, row.plan))
    return {
      ...item(row),
      project_id: row.project_id,
      access: row.engine === 'embedded' ? 'local' : 'network',
      ...(await figuresOf(engine, row)),
      max_size_bytes: limits.bytes,
      max_connections: limits.connections,
      read_only: row.over_limit !== 'none',
      failure: row.failure,
      restorable_until: row.drop_at?.toISOString() ?? null,
    }
  }

  return {
    async create(transaction, project, input) {
      const plan = await choosePlan(transaction, project, input.plan ?? defaultPlan)
      const source = input.snapshot_id === undefined ? null : await sourceOf(transaction, project, input.snapshot_id)
      const version = await chooseVersion(input.version ?? source?.version)
      if (source !== null && source.version !== version) {
        throw invalidRequest({ field: 'version', message: `must be ${source.version}, as that of the snapshot` })
      }
      const { bytes } = limitsOf(planNamed(plans, plan))
      if (source !== null && Number(source.size_bytes) > bytes) {
        throw invalidRequest({ field: 'plan', message: `allows ${bytes} bytes, and the snapshot is larger` })
      }
      await takePlace(transaction, project)
      const id = newId('database')
      const password = newPassword()
      const address = await engine.addressOf(transaction, version)
      await transaction
        .withTables<DatabasesTables>()
        .insertInto('databases')
        .values({
          id,
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
      await enqueueSettle(transaction, id)
      return {
        id,
        name: input.name,
        type: 'postgresql',
        version,
        connection_string: connectionString({ name: id, password, ...address }),
        status: 'provisioning',
      }
    },

    async list(project, page) {
      const all = db.selectFrom('databases').selectAll().where('project_id', '=', project.id)
      const { rows, next } = await readPage(all, page, 'id')
      return { body: { databases: rows.map(item) }, next }
    },

    async get(project, id, transaction) {
      const row = await (transaction?.withTables<DatabasesTables>() ?? db)
        .selectFrom('databases')
        .selectAll()
        .where('id', '=', id)
        .where('project_id', '=', project.id)
        .executeTakeFirst()
      if (row === undefined) throw notFound()
      return detail(row)
    },

    async delete(transaction, project, id) {
      const row = await find(transaction, project, id)
      if (row.status === 'deleting') return
      // What nobody could ever use holds nothing that would be missed.
      const dropAt = new Date(Date.now() + (row.available_at === null ? 0 : parts.retentionMs))
      await transaction
        .withTables<DatabasesTables>()
        .updateTable('databases')
        // What it was to be put back to ends with it: that snapshot need not outlast it.
        .set({ status: 'deleting', drop_at: dropAt, failure: null, source_snapshot_id: null, restore_id: null })
        .where('id', '=', id)
        .execute()
      await enqueueSettle(transaction, id)
      await enqueueDrop(transaction, id, dropAt)
      await letOldestGo(transaction, project)
    },

    async restore(transaction, project, id) {
      const row = await find(transaction, project, id)
      if (row.status !== 'deleting' || row.drop_at === null || row.drop_at <= new Date()) {
        throw invalidRequest({ field: 'id', message: 'this database is not deleted, or is gone for good' })
      }
      await takePlace(transaction, project)
      const restored = await transaction
        .withTables<DatabasesTables>()
        .updateTable('databases')
        .set({ status: 'provisioning', drop_at: null, provisioning_since: new Date() })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow()
      await enqueueSettle(transaction, id)
      return detail(restored)
    },

    async rotatePassword(transaction, project, id) {
      const row = await find(transaction, project, id)
      if (row.status !== 'available') throw notAvailable()
      const password = newPassword()
      // Two systems change, and a crash can come between them: whatever becomes of this, the engine is then told what
      // the row says. Written outside of the transaction, so that it is there also when that fails.
      await enqueueSettle(parts.database, id, new Date(Date.now() + healMs))
      const instance = await openEngine(parts, row.version)
      const role = { name: id, verifier: await scramVerifier(password), limits: limitsOf(planNamed(plans, row.plan)) }
      await instance.ensureRole(role, AbortSignal.timeout(engineTimeoutMs)).catch((error: unknown) => {
        if (!isLocked(error)) throw error
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
    },

    count: createBatcher(async (projectIds: readonly string[]) => {
      const rows = await counted(parts.database)
        .select('project_id')
        .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
        .groupBy('project_id')
        .execute()
      const totals = new Map(rows.map(({ project_id, total }) => [project_id, Number(total)]))
      return projectIds.map((id) => totals.get(id) ?? 0)
    }),
  }
}

/** For what needs a database that is in use. */
export function notAvailable(): ApiError {
  return invalidRequest({ field: 'id', message: 'this database is not available at the moment; see its status' })
}

async function openEngine({ engine }: DatabaseParts, version: string) {
  return engine.open(version, AbortSignal.timeout(engineTimeoutMs)).catch((error: unknown) => {
    throw error instanceof EngineError ? new ApiError('server_error', error.message) : error
  })
}

function item({ id, name, version, plan, status, created_at }: DatabaseRow) {
  return { id, name, type: 'postgresql' as const, version, plan, status, created_at: created_at.toISOString() }
}
