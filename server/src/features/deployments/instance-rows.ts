import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Handle } from '../../runtimes/runtime.ts'
import { isSite, web } from './process-types.ts'
import {
  type DeploymentGeneration,
  type DeploymentRow,
  type InstanceRow,
  type InstanceState,
  tablesOf,
} from './tables.ts'

export interface InstanceName {
  readonly type: string
  readonly number: number
}

/** The rows of a release's instances, except its first `web` instance. */
export interface InstanceRows {
  /** Ordered by type and number. */
  of(deploymentId: string, on?: Database | Transaction): Promise<InstanceRow[]>
  /** Returns the instances of all deployments that are building or running. */
  all(): Promise<InstanceRow[]>
  /**
   * Records the start of an instance, which replaces the previous instance of that name. Returns false when the release
   * may no longer run.
   */
  started(target: DeploymentGeneration, name: InstanceName, handle: Handle): Promise<boolean>
  /**
   * Records the state of an instance, and its new handle. Returns false when the instance no longer has a row, for
   * example because it was replaced. The first instance of a release has a row, but no state.
   */
  note(deploymentId: string, recorded: Handle, state: InstanceState, handle?: Handle): Promise<boolean>
  /** Removes an instance's row, unless another instance has replaced it. */
  remove(deploymentId: string, instance: InstanceName & Pick<InstanceRow, 'handle'>): Promise<void>
  clear(deploymentId: string): Promise<void>
  /**
   * Replaces an instance in its row; this may also be the first instance of the release. Returns false when the old
   * instance no longer has a row or was recorded as ended, and when the release may not run.
   */
  replace(target: DeploymentGeneration, old: Handle, handle: Handle): Promise<boolean>
  /**
   * Makes a `web` instance the first instance of its release, in place of the given row's instance. Returns the changed
   * row; null when the release may no longer run, or one of the two instances has no row.
   */
  promote(
    target: DeploymentGeneration & Pick<DeploymentRow, 'instance'>,
    instance: InstanceRow,
  ): Promise<DeploymentRow | null>
}

export function createInstanceRows({ database }: { readonly database: Database }): InstanceRows {
  return {
    of: (deploymentId, on) =>
      tablesOf(on ?? database)
        .selectFrom('instances')
        .selectAll()
        .where('deployment_id', '=', deploymentId)
        .orderBy('type')
        .orderBy('number')
        .execute(),

    all: () =>
      tablesOf(database)
        .selectFrom('instances')
        .selectAll('instances')
        .innerJoin('deployments', 'deployments.id', 'instances.deployment_id')
        .where('deployments.status', 'in', ['building', 'running'])
        .execute(),

    started: (target, name, handle) => started(database, target, name, handle),

    note: (deploymentId, recorded, state, handle = recorded) =>
      note(database, deploymentId, { recorded, state, handle }),

    async remove(deployment_id, { type, number, handle }) {
      await remove(database, { deployment_id, type, number, handle })
    },

    async clear(deploymentId) {
      await tablesOf(database).deleteFrom('instances').where('deployment_id', '=', deploymentId).execute()
    },

    replace: (target, old, handle) => replace(database, target, old, handle),

    promote: (target, instance) =>
      database.transaction().execute((transaction) => promote(transaction, target, instance)),
  }
}

async function started(
  database: Database,
  target: DeploymentGeneration,
  { type, number }: InstanceName,
  handle: Handle,
): Promise<boolean> {
  const allowed = tablesOf(database)
    .selectFrom('deployments')
    .select(({ val }) => [
      'id',
      val(type).as('type'),
      sql<number>`${number}::integer`.as('number'),
      sql<string>`${JSON.stringify(handle)}::jsonb`.as('handle'),
      val('starting').as('state'),
    ])
    .where('id', '=', target.id)
    .where('generation', '=', target.generation)
    .where('status', 'in', ['building', 'running'])
  const { numInsertedOrUpdatedRows } = await tablesOf(database)
    .insertInto('instances')
    .columns(['deployment_id', 'type', 'number', 'handle', 'state'])
    .expression(allowed)
    .onConflict((conflict) =>
      conflict.columns(['deployment_id', 'type', 'number']).doUpdateSet({
        handle: sql`excluded.handle`,
        state: 'starting',
        restarts: sql`instances.restarts + 1`,
        started_at: sql`now()`,
      }),
    )
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

const is = (handle: Handle) => sql<Handle>`${JSON.stringify(handle)}::jsonb`

async function note(
  database: Database,
  deploymentId: string,
  { recorded, state, handle }: { readonly recorded: Handle; readonly state: InstanceState; readonly handle: Handle },
): Promise<boolean> {
  // This table comes first: an instance may move from here to the row of its release, and never back.
  const other = await tablesOf(database)
    .updateTable('instances')
    .set({ state, handle: JSON.stringify(handle) })
    .where('deployment_id', '=', deploymentId)
    .where('handle', '=', is(recorded))
    .executeTakeFirst()
  if (other.numUpdatedRows === 1n) return true
  const first = await tablesOf(database)
    .updateTable('deployments')
    .set({ instance: JSON.stringify(handle) })
    .where('id', '=', deploymentId)
    .where('status', '=', 'running')
    .where('instance', '=', is(recorded))
    .executeTakeFirst()
  return first.numUpdatedRows === 1n
}

async function replace(
  database: Database,
  { id, generation }: DeploymentGeneration,
  old: Handle,
  handle: Handle,
): Promise<boolean> {
  // As in `note`, this table comes first.
  const running = tablesOf(database)
    .selectFrom('deployments')
    .select('id')
    .where('id', '=', id)
    .where('generation', '=', generation)
    .where('status', '=', 'running')
  const other = await tablesOf(database)
    .updateTable('instances')
    .set({ handle: JSON.stringify(handle), state: 'running', started_at: sql`now()` })
    .where('deployment_id', 'in', running)
    .where('handle', '=', is(old))
    // An ended instance is being restarted.
    .where('state', '<>', 'ended')
    .executeTakeFirst()
  if (other.numUpdatedRows === 1n) return true
  const first = await tablesOf(database)
    .updateTable('deployments')
    .set({ instance: JSON.stringify(handle) })
    .where('id', '=', id)
    .where('generation', '=', generation)
    .where('status', '=', 'running')
    .where('instance', '=', is(old))
    .executeTakeFirst()
  return first.numUpdatedRows === 1n
}

async function promote(
  transaction: Transaction,
  { id, generation, instance: first }: DeploymentGeneration & Pick<DeploymentRow, 'instance'>,
  instance: InstanceRow,
): Promise<DeploymentRow | null> {
  const locked = await tablesOf(transaction)
    .selectFrom('deployments')
    .select('id')
    .where('id', '=', id)
    .where('generation', '=', generation)
    .where('status', '=', 'running')
    .where('instance', 'is not distinct from', first && is(first))
    .forUpdate()
    .executeTakeFirst()
  if (locked === undefined || !(await remove(transaction, instance))) return null
  return tablesOf(transaction)
    .updateTable('deployments')
    .set({ instance: JSON.stringify(instance.handle) })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

async function remove(
  on: Database | Transaction,
  { deployment_id, type, number, handle }: Pick<InstanceRow, 'deployment_id' | 'type' | 'number' | 'handle'>,
): Promise<boolean> {
  const { numDeletedRows } = await tablesOf(on)
    .deleteFrom('instances')
    .where('deployment_id', '=', deployment_id)
    .where('type', '=', type)
    .where('number', '=', number)
    .where('handle', '=', is(handle))
    .executeTakeFirst()
  return numDeletedRows === 1n
}

/**
 * True for an instance whose variables are older than a rotation. An instance with later variables was started since
 * the row was read.
 */
export const isOutdated = (
  { variable_origins }: Pick<DeploymentRow, 'variable_origins'>,
  { handle }: Pick<InstanceRow, 'handle'>,
): boolean => (handle.rotations ?? 0) < (variable_origins.rotations ?? 0)

/** Returns the first instance of a release if its variables are older than a rotation. A static site has none. */
export function outdatedFirst(
  row: Pick<DeploymentRow, 'instance' | 'build_plan' | 'variable_origins'>,
): Pick<InstanceRow, 'type' | 'handle'>[] {
  const { instance: handle, build_plan } = row
  if (handle === null || build_plan === null || isSite(build_plan)) return []
  return isOutdated(row, { handle }) ? [{ type: web, handle }] : []
}
