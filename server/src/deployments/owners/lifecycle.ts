import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Background } from '../../platform/background.ts'
import type { Transaction } from '../../platform/database.ts'
import type { Teardown } from '../job/teardown.ts'
import type { Announce, UrlOf } from '../state/announce.ts'
import type { DeploymentLocks } from '../state/lock.ts'
import { enqueueDeployment } from '../state/queue.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { DeploymentRow } from '../state/tables.ts'
import type { DeploymentDetails, FoundDeployment } from './detail.ts'
import { otherIsActive, refusal, type Verb } from './refusals.ts'
import type { RemoveDeployment } from './remove.ts'

type Detail = ResponseBody<'deployments.get'>

/** A request to change one deployment. */
export interface Change {
  readonly transaction: Transaction
  readonly afterCommit: (work: () => void) => void
  readonly project: TenantProject
  readonly id: string
}

/**
 * Changes of deployments by their owners. Each is one state change in the request's transaction; the instances follow
 * after the commit. All throw `not_found`, and `invalid_request` with advice where the state does not allow the change.
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
  readonly locks: Pick<DeploymentLocks, 'interrupt'>
  readonly teardown: Teardown
  readonly remove: RemoveDeployment
  readonly announce: Announce
  readonly urlOf: UrlOf
  readonly background: Background
}

export function createLifecycle(dependencies: LifecycleDependencies): Lifecycle {
  const { store, announce, urlOf, details } = dependencies
  const read = ({ transaction, project, id }: Change) => details.find(transaction, project, id)

  return {
    async cancel(change) {
      const { row } = await read(change)
      const ok = await store.requests.cancel(change.transaction, row.id)
      const found = await read(change)
      if (!ok) return unchanged(details, found, 'canceled', 'cancel')
      await announce(change.transaction, { event: 'deployment.canceled', row: found.row, url: urlOf(found.app) })
      tearDownAfterCommit(dependencies, change, [found.row])
      return details.show(found)
    },

    async stop(change) {
      const { row } = await read(change)
      const ok = await store.requests.stop(change.transaction, row.id)
      const found = await read(change)
      if (!ok) return unchanged(details, found, 'stopped', 'stop')
      tearDownAfterCommit(dependencies, change, [found.row])
      return details.show(found)
    },

    async rollback(change) {
      const { row } = await read(change)
      const { ok, superseded } = await store.requests.rollBack(change.transaction, row)
      if (!ok) throw refusal((await read(change)).row, 'rollback')
      tearDownAfterCommit(dependencies, change, superseded)
      return startAfterCommit(dependencies, change)
    },

    async restart(change) {
      const { row } = await read(change)
      const ok = await store.requests.restart(change.transaction, row)
      // Read under the lock of the app that the change has taken.
      const active = await store.rows.active(change.transaction, row.app_id)
      const other = active.find(({ id }) => id !== row.id)
      if (other !== undefined) throw otherIsActive(row, other)
      if (!ok) throw refusal((await read(change)).row, 'restart')
      return startAfterCommit(dependencies, change)
    },

    async delete(change) {
      const { row } = await read(change)
      const { ok, appGone } = await store.requests.delete(change.transaction, row)
      if (!ok) throw refusal((await read(change)).row, 'delete')
      removeAfterCommit(dependencies, change, row, appGone)
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

/** Interrupts the jobs of these deployments, and reduces each release to what its new state allows. */
function tearDownAfterCommit(
  { locks, background, teardown }: LifecycleDependencies,
  { afterCommit }: Change,
  rows: readonly DeploymentRow[],
): void {
  afterCommit(() => {
    for (const row of rows) {
      locks.interrupt(row)
      background.add(teardown(row), { deployment: row.id, what: 'tearing a release down' })
    }
  })
}

/** Gives the release its job, and interrupts jobs for its earlier generations. */
async function startAfterCommit(
  { store, details, locks }: LifecycleDependencies,
  { transaction, afterCommit, project, id }: Change,
): Promise<Detail> {
  const found = await details.find(transaction, project, id)
  await enqueueDeployment(transaction, store.ofProjects, found.row)
  afterCommit(() => locks.interrupt({ id: found.row.id, generation: found.row.generation - 1 }))
  return details.show(found)
}

function removeAfterCommit(
  { locks, background, remove }: LifecycleDependencies,
  { afterCommit }: Change,
  row: DeploymentRow,
  appGone: boolean,
): void {
  afterCommit(() => {
    locks.interrupt(row)
    background.add(remove(row, { appGone }), { deployment: row.id, what: 'removing a deployment' })
  })
}
