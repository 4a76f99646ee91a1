import { sql } from 'kysely'
import type { DeploymentFailure } from '../../contract/resources/deployments.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Instance, Plan } from '../../runtimes/runtime.ts'
import { atRest, type DeploymentRow, lockApp, restingStatuses, tablesOf } from './rows.ts'

/** One wish: what was wanted later of the same deployment is another one. */
export type Wish = Pick<DeploymentRow, 'id' | 'intent'>

/** What became known while a release was made. */
export interface ReleaseFacts {
  readonly plan: Plan
  readonly instance: Instance
}

/**
 * What the work on deployments changes. Every change is one guarded UPDATE for one wish: it gives nothing when the
 * deployment is in another state by now, or wanted in another way.
 */
export interface Progress {
  /** `building` → `building`: the work begins, or begins again; → `superseded` when what was wanted later runs already. */
  begin(id: string): Promise<DeploymentRow | undefined>
  /** Takes back a `begin` that was cut short by no fault of the deployment. */
  giveBack(wish: Wish): Promise<void>
  /** The source is here: notes what it is, and forgets the token. */
  fetched(wish: Wish, source: { readonly branch: string | null; readonly commit: string }): Promise<void>
  /** `building` → `running`; gives the release that ran until now as `superseded`. */
  run(
    transaction: Transaction,
    row: DeploymentRow,
    facts: ReleaseFacts,
  ): Promise<{ ok: boolean; previous: DeploymentRow | undefined }>
  /** `building` | `running` → `failed`. */
  fail(transaction: Transaction, wish: Wish, failure: DeploymentFailure): Promise<boolean>
  /** Whether this wish is what runs. */
  runs(wish: Wish): Promise<boolean>
  /** Notes the process that a running release has been started as again. */
  setInstance(wish: Wish, instance: Instance): Promise<boolean>
  /** The process of a release at rest is about to be ended: nobody may route to it any more. */
  forgetInstance(wish: Wish): Promise<boolean>
  /** Gives up the files of all but the newest `keep` releases at rest of an app; gives those. */
  prune(appId: string, keep: number): Promise<DeploymentRow[]>
}

export function createProgress({ database }: { database: Database }): Progress {
  const db = tablesOf(database)

  const supersedeIfOlder = async (on: Database | Transaction, id: string): Promise<boolean> => {
    const { numUpdatedRows } = await tablesOf(on)
      .updateTable('deployments as older')
      .set({ status: 'superseded', ...atRest })
      .where('older.id', '=', id)
      .where('older.status', '=', 'building')
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom('deployments as newer')
            .select('newer.id')
            .whereRef('newer.app_id', '=', 'older.app_id')
            .whereRef('newer.intent', '>', 'older.intent')
            // One that was stopped since was wanted later all the same.
            .where('newer.status', 'in', ['running', 'stopped']),
        ),
      )
      .executeTakeFirst()
    return numUpdatedRows === 1n
  }

  const update = (wish: Wish, from: readonly DeploymentRow['status'][]) =>
    db
      .updateTable('deployments')
      .where('id', '=', wish.id)
      .where('intent', '=', wish.intent)
      .where('status', 'in', [...from])

  return {
    async begin(id) {
      await supersedeIfOlder(database, id)
      return db
        .updateTable('deployments')
        .set({ attempts: sql`attempts + 1`, started_at: sql`coalesce(started_at, now())` })
        .where('id', '=', id)
        .where('status', '=', 'building')
        .returningAll()
        .executeTakeFirst()
    },

    async giveBack(wish) {
      await update(wish, ['building']).set({ attempts: sql`attempts - 1` }).execute()
    },

    async fetched(wish, source) {
      await update(wish, ['building'])
        .set({ ...source, git_token: null })
        .execute()
    },

    async run(transaction, row, { plan, instance }) {
      const trx = tablesOf(transaction)
      await lockApp(transaction, row.app_id)
      // Looked at first: when this one may not run, the old one must not be touched.
      const current = await trx
        .selectFrom('deployments')
        .select(['status', 'intent'])
        .where('id', '=', row.id)
        .forUpdate()
        .executeTakeFirst()
      const wanted = current?.status === 'building' && current.intent === row.intent
      if (!wanted || (await supersedeIfOlder(transaction, row.id))) return { ok: false, previous: undefined }
      const previous = await trx
        .updateTable('deployments')
        .set({ status: 'superseded' })
        .where('app_id', '=', row.app_id)
        .where('status', '=', 'running')
        .returningAll()
        .executeTakeFirst()
      await trx
        .updateTable('deployments')
        .set({
          status: 'running',
          retained: true,
          plan: JSON.stringify(plan),
          instance: JSON.stringify(instance),
          ...atRest,
        })
        .where('id', '=', row.id)
        .where('status', '=', 'building')
        .execute()
      return { ok: true, previous }
    },

    async fail(transaction, wish, failure) {
      const { numUpdatedRows } = await tablesOf(transaction)
        .updateTable('deployments')
        .set({ status: 'failed', failure: JSON.stringify(failure), ...atRest })
        .where('id', '=', wish.id)
        .where('intent', '=', wish.intent)
        .where('status', 'in', ['building', 'running'])
        .executeTakeFirst()
      return numUpdatedRows === 1n
    },

    async runs(wish) {
      const row = await db
        .selectFrom('deployments')
        .select('id')
        .where('id', '=', wish.id)
        .where('intent', '=', wish.intent)
        .where('status', '=', 'running')
        .executeTakeFirst()
      return row !== undefined
    },

    async setInstance(wish, instance) {
      const { numUpdatedRows } = await update(wish, ['running'])
        .set({ instance: JSON.stringify(instance) })
        .executeTakeFirst()
      return numUpdatedRows === 1n
    },

    async forgetInstance(wish) {
      const { numUpdatedRows } = await update(wish, restingStatuses).set({ instance: null }).executeTakeFirst()
      return numUpdatedRows === 1n
    },

    prune: (appId, keep) =>
      db
        .updateTable('deployments')
        .set({ retained: false })
        .where('retained', '=', true)
        .where('status', 'in', [...restingStatuses])
        .where('id', 'in', ({ selectFrom }) =>
          selectFrom('deployments')
            .select('id')
            .where('app_id', '=', appId)
            .where('retained', '=', true)
            .where('status', 'in', [...restingStatuses])
            .orderBy('intent', 'desc')
            .offset(keep),
        )
        .returningAll()
        .execute(),
  }
}
