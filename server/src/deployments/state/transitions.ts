import { sql } from 'kysely'
import type { Transaction } from '../../platform/database.ts'
import { atRest, type DeploymentRow, lockApp, lockDeployment, restingStatuses, tablesOf } from './rows.ts'

export interface NewDeployment {
  readonly id: string
  readonly projectId: string
  readonly accountId: string
  readonly appId: string
  readonly gitUrl: string
  readonly branch: string | null
  readonly commit: string | null
  readonly variables: Buffer
  readonly gitToken: Buffer | null
}

/** What owners change, each in the transaction of the request. A change is refused by giving `false`. */
export interface Wishes {
  /**
   * Adds a deployment in `building`. Earlier ones of the app whose build nobody has begun are superseded by it; a release
   * that is to be started again is there sooner, and visitors have it until then.
   */
  add(transaction: Transaction, deployment: NewDeployment): Promise<DeploymentRow>
  /** `building` → `canceled`. */
  cancel(transaction: Transaction, id: string): Promise<boolean>
  /** `running` → `stopped`. */
  stop(transaction: Transaction, id: string): Promise<boolean>
  /**
   * A retained release at rest → `building`. Whatever of the app is being built is superseded and given, for the work
   * on it is to be ended.
   */
  rollBack(transaction: Transaction, row: DeploymentRow): Promise<{ ok: boolean; superseded: readonly DeploymentRow[] }>
  /** A retained release, running or at rest → `building`, with its process forgotten so that a new one is started. */
  restart(transaction: Transaction, row: DeploymentRow): Promise<boolean>
  /** Removes one at rest, and its app with the last one. */
  delete(transaction: Transaction, row: DeploymentRow): Promise<{ ok: boolean; appGone: boolean }>
  /** Puts all of a project at rest, so that its removal can begin. */
  endProject(transaction: Transaction, projectId: string): Promise<void>
  deleteProject(transaction: Transaction, projectId: string): Promise<void>
}

export function createWishes(): Wishes {
  /** The next place in the order of what is wanted of an app; holds the app's lock. */
  const nextIntent = async (transaction: Transaction, appId: string): Promise<number> => {
    const { intents } = await tablesOf(transaction)
      .updateTable('apps')
      .set({ intents: sql`intents + 1` })
      .where('id', '=', appId)
      .returning('intents')
      .executeTakeFirstOrThrow()
    return intents
  }

  const startAgain = async (
    transaction: Transaction,
    row: DeploymentRow,
    options: { readonly from: readonly DeploymentRow['status'][]; readonly forgetInstance: boolean },
  ): Promise<boolean> => {
    const intent = await nextIntent(transaction, row.app_id)
    await lockDeployment(transaction, row.id)
    const { numUpdatedRows } = await tablesOf(transaction)
      .updateTable('deployments')
      .set({ status: 'building', intent, attempts: 0, failure: null, started_at: null, finished_at: null })
      .$if(options.forgetInstance, (update) => update.set({ instance: null }))
      .where('id', '=', row.id)
      .where('retained', '=', true)
      .where('status', 'in', [...options.from])
      .executeTakeFirst()
    return numUpdatedRows === 1n
  }

  const moveTo = async (
    transaction: Transaction,
    id: string,
    from: DeploymentRow['status'],
    to: DeploymentRow['status'],
  ): Promise<boolean> => {
    await lockDeployment(transaction, id)
    const { numUpdatedRows } = await tablesOf(transaction)
      .updateTable('deployments')
      .set({ status: to, ...atRest })
      .where('id', '=', id)
      .where('status', '=', from)
      .executeTakeFirst()
    return numUpdatedRows === 1n
  }

  return {
    async add(transaction, deployment) {
      const trx = tablesOf(transaction)
      const intent = await nextIntent(transaction, deployment.appId)
      await trx
        .updateTable('deployments')
        .set({ status: 'superseded', ...atRest })
        .where('app_id', '=', deployment.appId)
        .where('status', '=', 'building')
        .where('started_at', 'is', null)
        .where('retained', '=', false)
        .execute()
      return trx
        .insertInto('deployments')
        .values({
          id: deployment.id,
          project_id: deployment.projectId,
          account_id: deployment.accountId,
          app_id: deployment.appId,
          intent,
          status: 'building',
          git_url: deployment.gitUrl,
          branch: deployment.branch,
          commit: deployment.commit,
          variables: deployment.variables,
          git_token: deployment.gitToken,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
    },

    cancel: (transaction, id) => moveTo(transaction, id, 'building', 'canceled'),
    stop: (transaction, id) => moveTo(transaction, id, 'running', 'stopped'),

    async rollBack(transaction, row) {
      await lockApp(transaction, row.app_id)
      const superseded = await tablesOf(transaction)
        .updateTable('deployments')
        .set({ status: 'superseded', ...atRest })
        .where('app_id', '=', row.app_id)
        .where('id', '<>', row.id)
        .where('status', '=', 'building')
        .returningAll()
        .execute()
      return { ok: await startAgain(transaction, row, { from: restingStatuses, forgetInstance: false }), superseded }
    },

    restart: (transaction, row) =>
      startAgain(transaction, row, { from: ['running', ...restingStatuses], forgetInstance: true }),

    async delete(transaction, row) {
      const trx = tablesOf(transaction)
      await lockApp(transaction, row.app_id)
      await lockDeployment(transaction, row.id)
      const { numDeletedRows } = await trx
        .deleteFrom('deployments')
        .where('id', '=', row.id)
        .where('status', 'in', [...restingStatuses])
        .executeTakeFirst()
      if (numDeletedRows !== 1n) return { ok: false, appGone: false }
      const left = await trx
        .selectFrom('deployments')
        .select('id')
        .where('app_id', '=', row.app_id)
        .limit(1)
        .executeTakeFirst()
      if (left === undefined) await trx.deleteFrom('apps').where('id', '=', row.app_id).execute()
      return { ok: true, appGone: left === undefined }
    },

    async endProject(transaction, projectId) {
      await tablesOf(transaction)
        .updateTable('deployments')
        .set({ status: 'stopped', ...atRest })
        .where('project_id', '=', projectId)
        .where('status', 'in', ['building', 'running'])
        .execute()
    },

    async deleteProject(transaction, projectId) {
      const trx = tablesOf(transaction)
      await trx.deleteFrom('deployments').where('project_id', '=', projectId).execute()
      await trx.deleteFrom('apps').where('project_id', '=', projectId).execute()
    },
  }
}
