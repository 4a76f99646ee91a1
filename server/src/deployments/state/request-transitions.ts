import { sql } from 'kysely'
import type { DeploymentTrigger } from '../../contract/deployments.ts'
import type { Transaction } from '../../platform/database.ts'
import type { AppRows } from './apps.ts'
import { atRest, lockDeployment, restingStatuses } from './rows.ts'
import { giveUpSuperseded, supersedeWaiting } from './superseded.ts'
import { type CommitDetails, type DeploymentRow, type LastRequest, tablesOf } from './tables.ts'
import type { VariableOrigins } from './variables.ts'

export interface NewDeployment {
  readonly id: string
  readonly projectId: string
  readonly accountId: string
  readonly appId: string
  /** Empty with `sourceId` and with `image`. */
  readonly gitUrl: string
  readonly sourceId: string | null
  /** The reference of an image. */
  readonly image: string | null
  /** Known before the pull for an image that is deployed again alone. */
  readonly imageDigest: string | null
  /** The deployment to copy in place of a build. */
  readonly fromId: string | null
  readonly branch: string | null
  readonly commit: string | null
  /** Known before the fetch for a copy alone. */
  readonly commitDetails: CommitDetails | null
  readonly root: string | null
  readonly trigger: DeploymentTrigger
  readonly variables: Buffer
  readonly origins: VariableOrigins
  readonly gitToken: Buffer | null
  /** True when it applies the variables of the app. */
  readonly applies?: boolean
  readonly runtime: string
}

/** State changes that owners ask for, each in the transaction of the request. `false` refuses a change. */
export interface RequestTransitions {
  /**
   * Adds a deployment in `building`, and supersedes earlier ones of the app whose build has not begun. A release that
   * waits to be started again is not superseded: it is ready sooner, and visitors have it until the new one is.
   */
  add(transaction: Transaction, deployment: NewDeployment): Promise<DeploymentRow>
  /** `building` → `canceled`. The caller brings back what it superseded. */
  cancel(transaction: Transaction, row: Pick<DeploymentRow, 'id' | 'app_id'>): Promise<boolean>
  /** `running` → `stopped`. */
  stop(transaction: Transaction, id: string): Promise<boolean>
  /**
   * A retained release at rest → `building`. Everything of the app that is being built is superseded, and returned so that
   * its jobs can be ended.
   */
  rollBack(
    transaction: Transaction,
    row: DeploymentRow,
    by: DeploymentTrigger,
  ): Promise<{ ok: boolean; superseded: readonly DeploymentRow[] }>
  /** A retained release, running or at rest → `building`, with its instance forgotten so that a new one is started. */
  restart(transaction: Transaction, row: DeploymentRow, by: DeploymentTrigger): Promise<boolean>
  /** Records that a deployment was given no variables of its own: they are the app's now. The release stays as it is. */
  giveUpVariables(transaction: Transaction, row: Pick<DeploymentRow, 'id'>): Promise<void>
  /** Deletes a deployment at rest, and its app with the last one. */
  delete(transaction: Transaction, row: DeploymentRow): Promise<boolean>
  /** Deletes an app with all its deployments, and returns their ids. */
  deleteApp(transaction: Transaction, appId: string): Promise<readonly string[]>
  /** Brings all deployments of a project to rest, so that its removal can begin. */
  endProject(transaction: Transaction, projectId: string): Promise<void>
  deleteProject(transaction: Transaction, projectId: string): Promise<void>
}

export function createRequestTransitions({ apps }: { readonly apps: AppRows }): RequestTransitions {
  return {
    add: (transaction, deployment) => add(apps, transaction, deployment),
    async cancel(transaction, { id, app_id }) {
      await apps.lock(transaction, app_id)
      return moveTo(transaction, id, 'building', 'canceled')
    },
    stop: (transaction, id) => moveTo(transaction, id, 'running', 'stopped'),

    async rollBack(transaction, row, by) {
      await apps.lock(transaction, row.app_id)
      await giveUpSuperseded(transaction, { app_id: row.app_id })
      const superseded = await tablesOf(transaction)
        .updateTable('deployments')
        .set({ status: 'superseded', ...atRest })
        .where('app_id', '=', row.app_id)
        .where('id', '<>', row.id)
        .where('status', '=', 'building')
        .returningAll()
        .execute()
      const generation = await apps.nextGeneration(transaction, row.app_id)
      const options = { from: restingStatuses, generation, forgetInstance: false, kind: 'rollback', by } as const
      return { ok: await startAgain(transaction, row, options), superseded }
    },

    async restart(transaction, row, by) {
      const generation = await apps.nextGeneration(transaction, row.app_id)
      const from = ['running', ...restingStatuses] as const
      return startAgain(transaction, row, { from, generation, forgetInstance: true, kind: 'restart', by })
    },

    async giveUpVariables(transaction, { id }) {
      // In the database: a rotation may be counted since the row was read.
      const variable_origins = sql<string>`jsonb_set(variable_origins, '{given}', '[]')`
      await tablesOf(transaction).updateTable('deployments').set({ variable_origins }).where('id', '=', id).execute()
    },

    delete: (transaction, row) => deleteRow(apps, transaction, row),

    async deleteApp(transaction, appId) {
      await apps.lock(transaction, appId)
      const deleted = await tablesOf(transaction)
        .deleteFrom('deployments')
        .where('app_id', '=', appId)
        .returning('id')
        .execute()
      await apps.delete(transaction, appId)
      return deleted.map(({ id }) => id)
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
      await tablesOf(transaction).deleteFrom('deployments').where('project_id', '=', projectId).execute()
      await apps.deleteProject(transaction, projectId)
    },
  }
}

async function add(apps: AppRows, transaction: Transaction, deployment: NewDeployment): Promise<DeploymentRow> {
  const trx = tablesOf(transaction)
  const generation = await apps.nextGeneration(transaction, deployment.appId)
  await supersedeWaiting(transaction, deployment)
  return trx
    .insertInto('deployments')
    .values({
      id: deployment.id,
      project_id: deployment.projectId,
      account_id: deployment.accountId,
      app_id: deployment.appId,
      generation,
      status: 'building',
      git_url: deployment.gitUrl,
      source_id: deployment.sourceId,
      image: deployment.image,
      image_digest: deployment.imageDigest,
      from_deployment_id: deployment.fromId,
      branch: deployment.branch,
      commit: deployment.commit,
      commit_details: deployment.commitDetails && JSON.stringify(deployment.commitDetails),
      root: deployment.root,
      triggered_by: JSON.stringify(deployment.trigger),
      variables: deployment.variables,
      variable_origins: JSON.stringify(deployment.origins),
      git_token: deployment.gitToken,
      last_request: deployment.applies ? JSON.stringify(applied(generation, deployment.trigger)) : null,
      runtime: deployment.runtime,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

const applied = (generation: number, by: DeploymentTrigger): LastRequest => ({
  generation,
  kind: 'variables',
  at: new Date().toISOString(),
  by,
})

interface StartAgain extends Pick<LastRequest, 'kind' | 'by' | 'generation'> {
  readonly from: readonly DeploymentRow['status'][]
  readonly forgetInstance: boolean
}

async function startAgain(
  transaction: Transaction,
  row: DeploymentRow,
  { from, generation, forgetInstance, kind, by }: StartAgain,
): Promise<boolean> {
  const request: LastRequest = { generation, kind, at: new Date().toISOString(), by }
  await lockDeployment(transaction, row.id)
  const { numUpdatedRows } = await tablesOf(transaction)
    .updateTable('deployments')
    .set({ status: 'building', generation, attempts: 0, failure: null, started_at: null, finished_at: null })
    .set({ last_request: JSON.stringify(request) })
    .$if(forgetInstance, (update) => update.set({ instance: null }))
    .where('id', '=', row.id)
    .where('retained', '=', true)
    .where('status', 'in', [...from])
    .where('generation', '<=', generation)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

async function moveTo(
  transaction: Transaction,
  id: string,
  from: DeploymentRow['status'],
  to: DeploymentRow['status'],
): Promise<boolean> {
  await lockDeployment(transaction, id)
  const { numUpdatedRows } = await tablesOf(transaction)
    .updateTable('deployments')
    .set({ status: to, ...atRest })
    .where('id', '=', id)
    .where('status', '=', from)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

async function deleteRow(apps: AppRows, transaction: Transaction, row: DeploymentRow): Promise<boolean> {
  const trx = tablesOf(transaction)
  await apps.lock(transaction, row.app_id)
  await lockDeployment(transaction, row.id)
  const { numDeletedRows } = await trx
    .deleteFrom('deployments')
    .where('id', '=', row.id)
    .where('status', 'in', [...restingStatuses])
    .executeTakeFirst()
  if (numDeletedRows !== 1n) return false
  const others = trx.selectFrom('deployments').select('id').where('app_id', '=', row.app_id).limit(1)
  if ((await others.executeTakeFirst()) === undefined) await apps.delete(transaction, row.app_id)
  return true
}
