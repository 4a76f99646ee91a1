import { sql } from 'kysely'
import type { BuildPlan } from '../../builds/build-plan.ts'
import type { DeploymentTrigger, StepTimes } from '../../contract/deployments.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Handle } from '../../runtimes/runtime.ts'
import type { AppRows } from './app-directory.ts'
import { notifyChange } from './changes.ts'
import type { DeploymentFailure } from './failure.ts'
import { createInstanceRows, type InstanceRows } from './instance-rows.ts'
import { createScales, type Scales } from './process-types.ts'
import { enqueueDeployment } from './queue.ts'
import {
  createJobReads,
  createProjectReads,
  createReleaseReads,
  type JobReads,
  type ProjectReads,
  type ReleaseReads,
} from './reads.ts'
import type { VariableOrigins } from './release-variables.ts'
import {
  type CommitDetails,
  type DeploymentGeneration,
  type DeploymentRow,
  type LastRequest,
  tablesOf,
} from './tables.ts'

/**
 * The rows of deployments. Every change of state is one guarded UPDATE that names the states it may leave, and reports
 * when the row was in another state.
 */
export interface DeploymentStore {
  readonly ofProjects: ProjectReads
  readonly releases: ReleaseReads
  readonly rows: JobReads
  readonly requests: RequestTransitions
  readonly jobs: JobTransitions
  readonly instances: InstanceRows
  readonly scales: Scales
}

export function createDeploymentStore(dependencies: {
  readonly database: Database
  readonly apps: AppRows
}): DeploymentStore {
  return {
    ofProjects: createProjectReads(dependencies),
    releases: createReleaseReads(dependencies),
    rows: createJobReads(dependencies),
    requests: createRequestTransitions(dependencies),
    jobs: createJobTransitions(dependencies),
    instances: createInstanceRows(dependencies),
    scales: createScales(dependencies),
  }
}

export interface NewDeployment {
  readonly id: string
  readonly projectId: string
  readonly accountId: string
  readonly appId: string
  readonly gitUrl: string
  readonly sourceId: string | null
  readonly image: string | null
  /** Known before the pull only when an image is deployed again. */
  readonly imageDigest: string | null
  /** The deployment to copy in place of a build. */
  readonly fromId: string | null
  readonly branch: string | null
  readonly commit: string | null
  /** Known before the fetch only for a copy. */
  readonly commitDetails: CommitDetails | null
  readonly root: string | null
  readonly trigger: DeploymentTrigger
  readonly variables: Buffer
  readonly origins: VariableOrigins
  readonly gitToken: Buffer | null
  readonly applies?: boolean
  readonly runtime: string
}

/** State changes that owners request, each in the transaction of the request. `false` refuses a change. */
interface RequestTransitions {
  /**
   * Adds a deployment in `building`, and supersedes the app's earlier deployments whose builds have not begun. It does
   * not supersede a release that waits to start again: that release is ready sooner, and serves visitors until the new
   * release does.
   */
  add(transaction: Transaction, deployment: NewDeployment): Promise<DeploymentRow>
  /** `building` → `canceled`. The caller brings back the deployments that it superseded. */
  cancel(transaction: Transaction, row: Pick<DeploymentRow, 'id' | 'app_id'>): Promise<boolean>
  stop(transaction: Transaction, id: string): Promise<boolean>
  /** A retained, stopped release → `building`. Supersedes and returns the app's deployments that are being built. */
  rollBack(
    transaction: Transaction,
    row: DeploymentRow,
    by: DeploymentTrigger,
  ): Promise<{ ok: boolean; superseded: readonly DeploymentRow[] }>
  /** A retained release, running or stopped → `building`. Clears its instance, so that a new instance starts. */
  restart(transaction: Transaction, row: DeploymentRow, by: DeploymentTrigger): Promise<boolean>
  /** Records that the deployment has no variables besides the app's. The release does not change. */
  giveUpVariables(transaction: Transaction, row: Pick<DeploymentRow, 'id'>): Promise<void>
  /** Deletes a stopped deployment, and the app with its last deployment. */
  delete(transaction: Transaction, row: DeploymentRow): Promise<boolean>
  deleteApp(transaction: Transaction, appId: string): Promise<readonly string[]>
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
        .set({ status: 'superseded', ...endColumns })
        .where('app_id', '=', row.app_id)
        .where('id', '<>', row.id)
        .where('status', '=', 'building')
        .returningAll()
        .execute()
      const generation = await apps.nextGeneration(transaction, row.app_id)
      const options = { from: endedStatuses, generation, forgetInstance: false, kind: 'rollback', by } as const
      return { ok: await startAgain(transaction, row, options), superseded }
    },

    async restart(transaction, row, by) {
      const generation = await apps.nextGeneration(transaction, row.app_id)
      const from = ['running', ...endedStatuses] as const
      return startAgain(transaction, row, { from, generation, forgetInstance: true, kind: 'restart', by })
    },

    async giveUpVariables(transaction, { id }) {
      // Computed in the database: a rotation may have been counted since the row was read.
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
        .set({ status: 'stopped', ...endColumns })
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
    .set({ status: to, ...endColumns })
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
    .where('status', 'in', [...endedStatuses])
    .executeTakeFirst()
  if (numDeletedRows !== 1n) return false
  const remaining = trx.selectFrom('deployments').select('id').where('app_id', '=', row.app_id).limit(1)
  if ((await remaining.executeTakeFirst()) === undefined) await apps.delete(transaction, row.app_id)
  return true
}

export interface ReleaseFacts {
  readonly plan: BuildPlan
  readonly instance: Handle
}

/**
 * State changes by the server's jobs. Each is one guarded UPDATE for one generation: it changes nothing when the
 * deployment has left the expected state, or a later request was accepted.
 */
export interface JobTransitions {
  /**
   * `building` → `building`: the job begins, or begins again. → `superseded` when a later generation of the app is
   * already running; then it returns nothing.
   */
  begin(id: string): Promise<DeploymentRow | undefined>
  /** Reverts a `begin` that was interrupted without a fault of the deployment. */
  giveBack(target: DeploymentGeneration): Promise<void>
  /** Records the fetched source, and deletes the token. */
  fetched(
    target: DeploymentGeneration,
    source: { readonly branch: string | null; readonly commit: string; readonly info: CommitDetails | null },
  ): Promise<void>
  pulled(target: DeploymentGeneration, digest: string): Promise<void>
  /** Records that another runtime keeps the release from now on. Returns false when this generation is outdated. */
  moveTo(target: DeploymentGeneration, runtime: string): Promise<boolean>
  /** Records how many builds end before this build begins; null when it begins. */
  noteBuildsBefore(target: DeploymentGeneration, buildsBefore: number | null): Promise<void>
  /** Records the steps that have begun. It may arrive after the deployment's end, which closes the last step. */
  noteSteps(target: DeploymentGeneration, steps: readonly StepTimes[]): Promise<void>
  /** `building` → `running`. The release that ran until now becomes `superseded` and is returned. */
  run(
    transaction: Transaction,
    row: DeploymentRow,
    facts: ReleaseFacts,
  ): Promise<{ ok: boolean; previous: DeploymentRow | undefined }>
  /**
   * `building` | `running` → `failed`, from the row's current state: a restart may have been accepted since. The caller
   * has ended all instances of the deployment, which are cleared, and brings back the deployments that it superseded.
   *
   * @param only the first instance that the release must have; without it, any instance
   */
  fail(
    transaction: Transaction,
    row: DeploymentGeneration & Pick<DeploymentRow, 'app_id' | 'status'>,
    failure: DeploymentFailure,
    only?: Pick<DeploymentRow, 'instance'>,
  ): Promise<boolean>
  runs(target: DeploymentGeneration): Promise<boolean>
  /**
   * Records the new first instance of a running release. Returns false when the instance in the given row was replaced.
   */
  setInstance(target: DeploymentGeneration & Pick<DeploymentRow, 'instance'>, instance: Handle): Promise<boolean>
  /** Clears the instance of a stopped release, which is about to end: from now on nothing may route to it. */
  forgetInstance(target: DeploymentGeneration): Promise<boolean>
  /** Discards all retained, stopped releases of an app except the newest `keep`, and returns the discarded releases. */
  prune(appId: string, keep: number): Promise<DeploymentRow[]>
}

export function createJobTransitions(given: {
  readonly database: Database
  readonly apps: Pick<AppRows, 'lock'>
}): JobTransitions {
  const { database, apps } = given
  const db = tablesOf(database)

  const update = (target: DeploymentGeneration, from: readonly DeploymentRow['status'][]) =>
    db
      .updateTable('deployments')
      .where('id', '=', target.id)
      .where('generation', '=', target.generation)
      .where('status', 'in', [...from])
  const isUpdated = async (update: { executeTakeFirst(): Promise<{ readonly numUpdatedRows: bigint }> }) =>
    (await update.executeTakeFirst()).numUpdatedRows === 1n

  return {
    begin: (id) => begin(database, id),

    async giveBack(target) {
      await update(target, ['building']).set({ attempts: sql`attempts - 1` }).execute()
    },

    async fetched(target, { info, ...source }) {
      const commit_details = info && JSON.stringify(info)
      await update(target, ['building'])
        .set({ ...source, commit_details, git_token: null })
        .execute()
    },

    async pulled(target, image_digest) {
      await update(target, ['building']).set({ image_digest }).execute()
    },

    moveTo: (target, runtime) => isUpdated(update(target, ['building']).set({ runtime })),

    async noteBuildsBefore(target, buildsBefore) {
      await update(target, ['building']).set({ builds_before: buildsBefore }).execute()
    },

    noteSteps: (target, steps) => noteSteps(database, target, steps),

    async run(transaction, row, facts) {
      await apps.lock(transaction, row.app_id)
      return run(transaction, row, facts)
    },

    async fail(transaction, row, failure, only) {
      await apps.lock(transaction, row.app_id)
      return fail(transaction, row, failure, only)
    },
    runs: (target) => runs(database, target),

    setInstance: (target, instance) =>
      isUpdated(
        update(target, ['running'])
          .set({ instance: JSON.stringify(instance) })
          .where('instance', 'is not distinct from', jsonOf(target.instance)),
      ),

    forgetInstance: (target) => isUpdated(update(target, endedStatuses).set({ instance: null })),

    prune: (appId, keep) => prune(database, appId, keep),
  }
}

const jsonOf = (handle: Handle | null) => (handle === null ? null : sql<Handle>`${JSON.stringify(handle)}::jsonb`)

async function begin(database: Database, id: string): Promise<DeploymentRow | undefined> {
  await supersedeIfOlder(database, id)
  return tablesOf(database)
    .updateTable('deployments')
    .set({ attempts: sql`attempts + 1`, started_at: sql`coalesce(started_at, now())`, builds_before: null })
    .where('id', '=', id)
    .where('status', '=', 'building')
    .returningAll()
    .executeTakeFirst()
}

async function noteSteps(
  database: Database,
  { id, generation }: DeploymentGeneration,
  steps: Parameters<JobTransitions['noteSteps']>[1],
): Promise<void> {
  await tablesOf(database)
    .updateTable('deployments')
    .set({ steps: JSON.stringify({ generation, steps }) })
    .where('id', '=', id)
    .where('generation', '=', generation)
    .execute()
}

async function runs(database: Database, target: DeploymentGeneration): Promise<boolean> {
  const row = await tablesOf(database)
    .selectFrom('deployments')
    .select('id')
    .where('id', '=', target.id)
    .where('generation', '=', target.generation)
    .where('status', '=', 'running')
    .executeTakeFirst()
  return row !== undefined
}

async function fail(
  transaction: Transaction,
  target: DeploymentGeneration & Pick<DeploymentRow, 'status'>,
  failure: DeploymentFailure,
  only: Pick<DeploymentRow, 'instance'> | undefined,
): Promise<boolean> {
  const { numUpdatedRows } = await tablesOf(transaction)
    .updateTable('deployments')
    .set({ status: 'failed', failure: JSON.stringify(failure), ...endColumns })
    .where('id', '=', target.id)
    .where('generation', '=', target.generation)
    .where('status', '=', target.status)
    .where('status', 'in', ['building', 'running'])
    .$if(only !== undefined, (update) =>
      update.where('instance', 'is not distinct from', jsonOf(only?.instance ?? null)),
    )
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) return false
  await tablesOf(transaction).deleteFrom('instances').where('deployment_id', '=', target.id).execute()
  return true
}

/** `building` → `superseded` when a later generation of the app runs, or was stopped after it ran. */
async function supersedeIfOlder(on: Database | Transaction, id: string): Promise<boolean> {
  const { numUpdatedRows } = await tablesOf(on)
    .updateTable('deployments as older')
    .set({ status: 'superseded', ...endColumns })
    .where('older.id', '=', id)
    .where('older.status', '=', 'building')
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('deployments as newer')
          .select('newer.id')
          .whereRef('newer.app_id', '=', 'older.app_id')
          .whereRef('newer.generation', '>', 'older.generation')
          .where('newer.status', 'in', ['running', 'stopped']),
      ),
    )
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

/** The caller holds the lock of the app. */
async function run(
  transaction: Transaction,
  row: DeploymentRow,
  { plan, instance }: ReleaseFacts,
): Promise<{ ok: boolean; previous: DeploymentRow | undefined }> {
  const trx = tablesOf(transaction)
  // Checked first: when this deployment may not run, the old release must stay unchanged.
  const current = await trx
    .selectFrom('deployments')
    .select(['status', 'generation'])
    .where('id', '=', row.id)
    .forUpdate()
    .executeTakeFirst()
  const isDesired = current?.status === 'building' && current.generation === row.generation
  if (!isDesired || (await supersedeIfOlder(transaction, row.id))) return { ok: false, previous: undefined }
  await giveUpSuperseded(transaction, row)
  const supersede = () =>
    trx
      .updateTable('deployments')
      .set({ status: 'superseded' })
      .where('app_id', '=', row.app_id)
      .where('id', '<>', row.id)
      .returningAll()
  const serving = await supersede().where('status', '=', 'running').executeTakeFirst()
  // A release that is being restarted for maintenance is in `building`.
  const restarted = supersede().where('status', '=', 'building').where('retained', '=', true)
  const previous = serving ?? (await restarted.where('generation', '<', row.generation).executeTakeFirst())
  await trx
    .updateTable('deployments')
    .set({
      status: 'running',
      retained: true,
      build_plan: JSON.stringify(plan),
      instance: JSON.stringify(instance),
      ...endColumns,
    })
    .where('id', '=', row.id)
    .where('status', '=', 'building')
    .execute()
  return { ok: true, previous }
}

function prune(database: Database, appId: string, keep: number): Promise<DeploymentRow[]> {
  return tablesOf(database)
    .updateTable('deployments')
    .set({ retained: false })
    .where('retained', '=', true)
    .where('status', 'in', [...endedStatuses])
    .where('id', 'in', ({ selectFrom }) =>
      selectFrom('deployments')
        .select('id')
        .where('app_id', '=', appId)
        .where('retained', '=', true)
        .where('status', 'in', [...endedStatuses])
        .orderBy('generation', 'desc')
        .offset(keep),
    )
    .returningAll()
    .execute()
}

/**
 * A new deployment supersedes the app's deployments whose builds have not begun, except releases that start again. If
 * it is canceled or fails, the last deployment that it superseded waits for its build again. So a superseded deployment
 * keeps its token until a newer deployment serves. Callers hold the app's lock.
 */
export async function supersedeWaiting(transaction: Transaction, by: { id: string; appId: string }): Promise<void> {
  const { finished_at, builds_before } = endColumns
  await tablesOf(transaction)
    .updateTable('deployments')
    .set({ status: 'superseded', superseded_by: by.id, finished_at, builds_before })
    .where('app_id', '=', by.appId)
    .where('status', '=', 'building')
    .where('started_at', 'is', null)
    .where('retained', '=', false)
    .execute()
}

/** Discards the superseded deployments of an app for good: all, or all older than a generation. */
export async function giveUpSuperseded(
  transaction: Transaction,
  { app_id, generation }: { readonly app_id: string; readonly generation?: number },
): Promise<void> {
  await tablesOf(transaction)
    .updateTable('deployments')
    .set({ superseded_by: null, git_token: null })
    .where('app_id', '=', app_id)
    .where('superseded_by', 'is not', null)
    .$if(generation !== undefined, (query) => query.where('generation', '<', generation ?? 0))
    .execute()
}

/** Queues the builds that a deployment has superseded, once that deployment is canceled or has failed. */
export async function bringBackSuperseded(
  transaction: Transaction,
  reads: Pick<ProjectReads, 'countBuilding'>,
  ended: Pick<DeploymentRow, 'id' | 'app_id'>,
): Promise<void> {
  const deployments = tablesOf(transaction)
  const found = await deployments
    .selectFrom('deployments')
    .select(['id', 'generation'])
    .where('superseded_by', '=', ended.id)
    .orderBy('generation', 'desc')
    .executeTakeFirst()
  if (found === undefined) return
  const next = await deployments
    .selectFrom('deployments')
    .select('id')
    .where('app_id', '=', ended.app_id)
    .where('generation', '>', found.generation)
    .where('status', '=', 'building')
    .orderBy('generation')
    .executeTakeFirst()
  // Only the newest comes back; it supersedes the rest.
  await deployments
    .updateTable('deployments')
    .set({ superseded_by: next?.id ?? found.id })
    .where('superseded_by', '=', ended.id)
    .execute()
  if (next !== undefined) return
  const row = await deployments
    .updateTable('deployments')
    .set({ status: 'building', superseded_by: null, finished_at: null })
    .where('id', '=', found.id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await enqueueDeployment(transaction, reads, row)
  await notifyChange(transaction, { appId: row.app_id, deploymentId: row.id })
}

/** The states without a job or a running instance. */
const endedStatuses = ['failed', 'canceled', 'superseded', 'stopped'] as const

/** The columns of a deployment that enters such a state. */
const endColumns = { finished_at: sql<Date>`coalesce(finished_at, now())`, git_token: null, builds_before: null }

/**
 * Waits for an uncommitted change of the deployment. Otherwise a guarded update would test the state before that
 * change, and the explanation of the refusal would name the state after it.
 */
async function lockDeployment(transaction: Transaction, id: string): Promise<void> {
  await tablesOf(transaction).selectFrom('deployments').select('id').where('id', '=', id).forUpdate().execute()
}
