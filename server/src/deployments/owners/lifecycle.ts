import type { DeploymentTrigger } from '../../contract/deployments.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Transaction } from '../../platform/database.ts'
import { notifyChange } from '../changes.ts'
import type { Announce, UrlOf } from '../outcome.ts'
import { enqueueDeployment } from '../queue.ts'
import { bringBackSuperseded, type DeploymentStore } from '../rows.ts'
import type { DeploymentRow } from '../tables.ts'
import type { DeploymentDetails, FoundDeployment } from './detail.ts'
import { otherIsActive, refusal, type Verb } from './refusals.ts'

type Detail = ResponseBody<'deployments.get'>

/** A request to change one deployment. */
export interface Change {
  readonly transaction: Transaction
  readonly by: DeploymentTrigger
  readonly project: TenantProject
  readonly id: string
}

/**
 * Changes of deployments by their owners. Each is one state change in the request's transaction; the leader hears of it
 * after the commit, and lets the instances follow. All throw `not_found`, and `invalid_request` with advice where the state does not allow the change.
 */
export interface Lifecycle {
  cancel(change: Change): Promise<Detail>
  stop(change: Change): Promise<Detail>
  rollback(change: Change): Promise<Detail>
  restart(change: Change): Promise<Detail>
  delete(change: Change): Promise<void>
}

export interface LifecycleDependencies {
  readonly store: Pick<DeploymentStore, 'requests' | 'rows' | 'ofProjects'>
  readonly details: DeploymentDetails
  /** Throws `server_error` when the disk is nearly full. */
  readonly assertRoom: () => Promise<void>
  readonly totals: Pick<Totals, 'takeOne'>
  readonly announce: Announce
  readonly urlOf: UrlOf
}

export function createLifecycle(dependencies: LifecycleDependencies): Lifecycle {
  const { store, announce, urlOf, details } = dependencies
  const read = ({ transaction, project, id }: Change) => details.find(transaction, project, id)

  return {
    async cancel(change) {
      const { row } = await read(change)
      const ok = await store.requests.cancel(change.transaction, row)
      const found = await read(change)
      if (!ok) return unchanged(details, found, 'canceled', 'cancel')
      await announce(change.transaction, { event: 'deployment.canceled', row: found.row, url: urlOf(found.app) })
      await notifyOf(change, found.row)
      await bringBackSuperseded(change.transaction, store.ofProjects, found.row)
      return details.show(found)
    },

    async stop(change) {
      const { row } = await read(change)
      const ok = await store.requests.stop(change.transaction, row.id)
      const found = await read(change)
      if (!ok) return unchanged(details, found, 'stopped', 'stop')
      await notifyOf(change, found.row)
      return details.show(found)
    },

    async rollback(change) {
      const { row } = await read(change)
      await dependencies.assertRoom()
      await takeStart(dependencies, change)
      const { ok, superseded } = await store.requests.rollBack(change.transaction, row, change.by)
      if (!ok) throw refusal((await read(change)).row, 'rollback')
      for (const other of superseded) await notifyOf(change, other)
      return enqueueStart(dependencies, change)
    },

    async restart(change) {
      const { row } = await read(change)
      await dependencies.assertRoom()
      await takeStart(dependencies, change)
      const ok = await store.requests.restart(change.transaction, row, change.by)
      // Read under the lock of the app that the change has taken.
      const active = await store.rows.active(change.transaction, row.app_id)
      const other = active.find(({ id }) => id !== row.id)
      if (other !== undefined) throw otherIsActive(row, other)
      if (!ok) throw refusal((await read(change)).row, 'restart')
      return enqueueStart(dependencies, change)
    },

    async delete(change) {
      const { row } = await read(change)
      if (!(await store.requests.delete(change.transaction, row))) throw refusal((await read(change)).row, 'delete')
      await notifyOf(change, row)
    },
  }
}

/** Answers a change that found the deployment changed so before; refuses every other. */
function unchanged(
  details: DeploymentDetails,
  found: FoundDeployment,
  status: DeploymentRow['status'],
  verb: Verb,
): Detail {
  if (found.row.status !== status) throw refusal(found.row, verb)
  return details.show(found)
}

function notifyOf({ transaction }: Change, { id, app_id }: DeploymentRow): Promise<void> {
  return notifyChange(transaction, { appId: app_id, deploymentId: id })
}

/** Counts a start in the account's hour. It builds nothing, so it waits for no room among the builds. */
function takeStart({ totals }: LifecycleDependencies, { transaction, project }: Change): Promise<void> {
  return totals.takeOne(transaction, project.accountId, 'deployments_per_hour')
}

/** Gives the release its job; jobs for its earlier generations will be interrupted. */
async function enqueueStart({ store, details }: LifecycleDependencies, change: Change): Promise<Detail> {
  const { transaction, project, id } = change
  const found = await details.find(transaction, project, id)
  await enqueueDeployment(transaction, store.ofProjects, found.row)
  await notifyOf(change, found.row)
  return details.show(found)
}
