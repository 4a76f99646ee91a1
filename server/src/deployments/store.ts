import { type Kysely, type Selectable, sql } from 'kysely'
import type { DeploymentFailure } from '../contract/resources/deployments.ts'
import type { PageRequest } from '../http/page.ts'
import { createBatcher } from '../platform/batcher.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { Instance, Plan } from './runner/runner.ts'
import type { DeploymentsTables } from './tables.ts'

export type DeploymentRow = Selectable<DeploymentsTables['deployments']>

export interface NewDeployment {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly gitUrl: string
  readonly branch: string | null
  readonly variables: Buffer
}

/** What became known while a release was made. */
export interface ReleaseFacts {
  readonly branch: string
  readonly commit: string
  readonly plan: Plan
  readonly instance: Instance
}

/**
 * The deployments' rows. Every change of state is one guarded UPDATE: it says which states it may leave,
 * and gives nothing when the row was in another.
 */
export interface DeploymentStore {
  /** Adds a deployment in `building`; earlier ones of the app that nobody has begun are superseded by it. */
  add(trx: Transaction, deployment: NewDeployment): Promise<DeploymentRow>
  /** `building` → `building`: the work begins, or begins again; → `superseded` when a newer release runs already. */
  begin(id: string): Promise<DeploymentRow | undefined>
  /** Takes back a `begin` that the server's own stop has cut short. */
  giveBack(id: string): Promise<void>
  /** `building` → `running`; gives the release that ran until now as `superseded`. False when it was no longer building. */
  run(trx: Transaction, id: string, facts: ReleaseFacts): Promise<{ ok: boolean; previous: DeploymentRow | undefined }>
  /** `building` | `running` → `failed`. */
  fail(id: string, failure: DeploymentFailure): Promise<boolean>
  /** Notes the process that a running release has been started as again. */
  setInstance(id: string, instance: Instance): Promise<void>
  get(projectId: string, id: string): Promise<(DeploymentRow & AppOfRow) | undefined>
  /** Newest first; one more than the page holds, when there are more. */
  list(projectId: string, page: PageRequest): Promise<(DeploymentRow & AppOfRow)[]>
  running(): Promise<DeploymentRow[]>
  /** The deployment if it is (still) running. */
  stillRunning(id: string): Promise<DeploymentRow | undefined>
  /** Which of these ids are deployments that may have something on disk: building or running ones. */
  live(): Promise<Set<string>>
  count(projectId: string): Promise<number>
}

interface AppOfRow {
  readonly app_name: string
  readonly port: number | null
  readonly hostname: string | null
}

export function createDeploymentStore({ database }: { database: Database }): DeploymentStore {
  const db = database.withTables<DeploymentsTables>()
  const withApps = db
    .selectFrom('deployments')
    .innerJoin('apps', 'apps.id', 'deployments.app_id')
    .selectAll('deployments')
    .select(['apps.name as app_name', 'apps.port', 'apps.hostname'])
  const now = sql<Date>`now()`

  /** A newer release of the app runs already, because this one was held up: it must not take the address back. */
  const supersedeIfOlder = async (on: Kysely<DeploymentsTables>, id: string): Promise<boolean> => {
    const { numUpdatedRows } = await on
      .updateTable('deployments as older')
      .set({ status: 'superseded', finished_at: now })
      .where('older.id', '=', id)
      .where('older.status', '=', 'building')
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom('deployments as newer')
            .select('newer.id')
            .whereRef('newer.app_id', '=', 'older.app_id')
            .whereRef('newer.id', '>', 'older.id')
            .where('newer.status', '=', 'running'),
        ),
      )
      .executeTakeFirst()
    return numUpdatedRows === 1n
  }

  return {
    async add(transaction, deployment) {
      const trx = transaction.withTables<DeploymentsTables>()
      await trx
        .updateTable('deployments')
        .set({ status: 'superseded', finished_at: now })
        .where('app_id', '=', deployment.appId)
        .where('status', '=', 'building')
        .where('started_at', 'is', null)
        .execute()
      return trx
        .insertInto('deployments')
        .values({
          id: deployment.id,
          project_id: deployment.projectId,
          app_id: deployment.appId,
          status: 'building',
          git_url: deployment.gitUrl,
          branch: deployment.branch,
          variables: deployment.variables,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
    },

    async begin(id) {
      await supersedeIfOlder(db, id)
      return db
        .updateTable('deployments')
        .set({ attempts: sql`attempts + 1`, started_at: sql`coalesce(started_at, now())` })
        .where('id', '=', id)
        .where('status', '=', 'building')
        .returningAll()
        .executeTakeFirst()
    },

    async giveBack(id) {
      await db
        .updateTable('deployments')
        .set({ attempts: sql`attempts - 1` })
        .where('id', '=', id)
        .where('status', '=', 'building')
        .execute()
    },

    async run(transaction, id, { branch, commit, plan, instance }) {
      const trx = transaction.withTables<DeploymentsTables>()
      // Locked and looked at first: when this one may not run, the old one must not be touched.
      const current = await trx
        .selectFrom('deployments')
        .select(['app_id', 'status'])
        .where('id', '=', id)
        .forUpdate()
        .executeTakeFirst()
      if (current?.status !== 'building' || (await supersedeIfOlder(trx, id))) return { ok: false, previous: undefined }
      const previous = await trx
        .updateTable('deployments')
        .set({ status: 'superseded' })
        .where('app_id', '=', current.app_id)
        .where('status', '=', 'running')
        .returningAll()
        .executeTakeFirst()
      await trx
        .updateTable('deployments')
        .set({
          status: 'running',
          branch,
          commit,
          plan: JSON.stringify(plan),
          instance: JSON.stringify(instance),
          finished_at: now,
        })
        .where('id', '=', id)
        .where('status', '=', 'building')
        .execute()
      return { ok: true, previous }
    },

    async fail(id, failure) {
      const { numUpdatedRows } = await db
        .updateTable('deployments')
        .set({ status: 'failed', failure: JSON.stringify(failure), finished_at: now })
        .where('id', '=', id)
        .where('status', 'in', ['building', 'running'])
        .executeTakeFirst()
      return numUpdatedRows === 1n
    },

    async setInstance(id, instance) {
      await db
        .updateTable('deployments')
        .set({ instance: JSON.stringify(instance) })
        .where('id', '=', id)
        .where('status', '=', 'running')
        .execute()
    },

    get(projectId, id) {
      return withApps
        .where('deployments.project_id', '=', projectId)
        .where('deployments.id', '=', id)
        .executeTakeFirst()
    },

    list(projectId, page) {
      const rows = withApps.where('deployments.project_id', '=', projectId)
      return (page.after === undefined ? rows : rows.where('deployments.id', '<', page.after))
        .orderBy('deployments.id', 'desc')
        .limit(page.limit + 1)
        .execute()
    },

    running: () => db.selectFrom('deployments').selectAll().where('status', '=', 'running').execute(),

    stillRunning(id) {
      return db
        .selectFrom('deployments')
        .selectAll()
        .where('id', '=', id)
        .where('status', '=', 'running')
        .executeTakeFirst()
    },

    async live() {
      const rows = await db
        .selectFrom('deployments')
        .select('id')
        .where('status', 'in', ['building', 'running'])
        .execute()
      return new Set(rows.map((row) => row.id))
    },

    count: createBatcher(async (projectIds: readonly string[]) => {
      const rows = await db
        .selectFrom('deployments')
        .select(['project_id', ({ fn }) => fn.countAll<string>().as('count')])
        .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
        .groupBy('project_id')
        .execute()
      const counts = new Map(rows.map((row) => [row.project_id, Number(row.count)]))
      return projectIds.map((id) => counts.get(id) ?? 0)
    }),
  }
}
