import { sql } from 'kysely'
import type { BuildPlan } from '../../builds/build-plan.ts'
import type { StepTimes } from '../../contract/deployments.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Handle } from '../../runtimes/runtime.ts'
import type { AppRows } from './apps.ts'
import type { DeploymentFailure } from './failure.ts'
import { atRest, restingStatuses } from './rows.ts'
import { giveUpSuperseded } from './superseded.ts'
import { type CommitDetails, type DeploymentGeneration, type DeploymentRow, tablesOf } from './tables.ts'

/** Facts that became known while a release was made. */
export interface ReleaseFacts {
  readonly plan: BuildPlan
  readonly instance: Handle
}

/**
 * State changes by the server's own jobs. Each is one guarded UPDATE for one generation: it changes nothing when the
 * deployment is in another state by now, or a later request was accepted.
 */
export interface JobTransitions {
  /**
   * `building` → `building`: the job begins, or begins again; → `superseded` when a later generation of the app runs
   * already, and then nothing is returned.
   */
  begin(id: string): Promise<DeploymentRow | undefined>
  /** Takes back a `begin` that was cut short by no fault of the deployment. */
  giveBack(target: DeploymentGeneration): Promise<void>
  /** Notes which source was fetched, and deletes the token. */
  fetched(
    target: DeploymentGeneration,
    source: { readonly branch: string | null; readonly commit: string; readonly info: CommitDetails | null },
  ): Promise<void>
  /** Notes the digest of the image that was pulled. */
  pulled(target: DeploymentGeneration, digest: string): Promise<void>
  /** Notes that another runtime keeps the release from now on. False when the deployment is not this one's work any more. */
  moveTo(target: DeploymentGeneration, runtime: string): Promise<boolean>
  /** Notes how many builds end before this one begins; null when it begins. */
  waits(target: DeploymentGeneration, buildsBefore: number | null): Promise<void>
  /** Notes the steps that have begun. It may arrive after the deployment's end, which closes the last step. */
  noteSteps(target: DeploymentGeneration, steps: readonly StepTimes[]): Promise<void>
  /** `building` → `running`; the release that ran until now becomes `superseded` and is returned. */
  run(
    transaction: Transaction,
    row: DeploymentRow,
    facts: ReleaseFacts,
  ): Promise<{ ok: boolean; previous: DeploymentRow | undefined }>
  /**
   * `building` | `running` → `failed`, from the state that the row has: a restart may have been accepted since. The caller has ended all of its instances, which are forgotten, and brings back what it
   * superseded.
   *
   * @param only the first instance that the release has to have; any when it is not given
   */
  fail(
    transaction: Transaction,
    row: DeploymentGeneration & Pick<DeploymentRow, 'app_id' | 'status'>,
    failure: DeploymentFailure,
    only?: Pick<DeploymentRow, 'instance'>,
  ): Promise<boolean>
  /** True when this generation is the running one. */
  runs(target: DeploymentGeneration): Promise<boolean>
  /** Notes the instance that a running release has been started as again; false when the one in the given row was replaced. */
  setInstance(target: DeploymentGeneration & Pick<DeploymentRow, 'instance'>, instance: Handle): Promise<boolean>
  /** Notes that the instance of a release at rest is about to be ended: from now on it must not be routed to. */
  forgetInstance(target: DeploymentGeneration): Promise<boolean>
  /** Gives up all but the newest `keep` retained releases at rest of an app, and returns those that it gave up. */
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

    async waits(target, buildsBefore) {
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

    forgetInstance: (target) => isUpdated(update(target, restingStatuses).set({ instance: null })),

    prune: (appId, keep) => prune(database, appId, keep),
  }
}

/** The value of a handle in a condition. */
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
    .set({ status: 'failed', failure: JSON.stringify(failure), ...atRest })
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
    .set({ status: 'superseded', ...atRest })
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
  // Checked first: when this one may not run, the old one must not be touched.
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
  // A release that is restarted for maintenance does not run at the moment.
  const restarted = supersede().where('status', '=', 'building').where('retained', '=', true)
  const previous = serving ?? (await restarted.where('generation', '<', row.generation).executeTakeFirst())
  await trx
    .updateTable('deployments')
    .set({
      status: 'running',
      retained: true,
      build_plan: JSON.stringify(plan),
      instance: JSON.stringify(instance),
      ...atRest,
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
    .where('status', 'in', [...restingStatuses])
    .where('id', 'in', ({ selectFrom }) =>
      selectFrom('deployments')
        .select('id')
        .where('app_id', '=', appId)
        .where('retained', '=', true)
        .where('status', 'in', [...restingStatuses])
        .orderBy('generation', 'desc')
        .offset(keep),
    )
    .returningAll()
    .execute()
}
