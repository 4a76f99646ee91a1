import { addressOf } from '../../apps/addresses.ts'
import { ApiError, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { AppsConfig } from '../../platform/config.ts'
import type { Transaction } from '../../platform/database.ts'
import type { DeployParts } from '../job/parts.ts'
import { putAway } from '../job/teardown.ts'
import { enqueueWork } from '../state/queue.ts'
import type { DeploymentInFull, DeploymentRow } from '../state/store.ts'
import { detailOf } from './presentation.ts'

type Detail = ResponseBody<'deployments.get'>

/** A request to change one deployment: what belongs to it, and what is done once the change holds. */
export interface Change {
  readonly transaction: Transaction
  readonly afterCommit: (work: () => void) => void
  readonly project: TenantProject
  readonly id: string
}

/**
 * What owners do with deployments. Each is one change of state in the request's transaction; the processes follow once
 * it holds. All throw `not_found`, and `invalid_request` with what to do where the state does not allow it.
 */
export interface Lifecycle {
  cancel(change: Change): Promise<Detail>
  stop(change: Change): Promise<Detail>
  rollback(change: Change): Promise<Detail>
  restart(change: Change): Promise<Detail>
  delete(change: Change): Promise<void>
}

export function createLifecycle(parts: DeployParts, options: { readonly appsConfig: AppsConfig }): Lifecycle {
  const read = async ({ transaction, project, id }: Change): Promise<DeploymentInFull> => {
    const row = await parts.store.get(transaction, project.id, id)
    if (row === undefined) throw notFound()
    return row
  }

  const describe = (row: DeploymentInFull): Detail => detailOf(row, parts.releases.variablesOf(row), options.appsConfig)

  /** What was asked for has been done before; anything else is refused. */
  const already = async (change: Change, status: DeploymentRow['status'], verb: Verb): Promise<Detail> => {
    const row = await read(change)
    if (row.status !== status) throw refuse(row, verb)
    return describe(row)
  }

  /** What is under way for these wishes leaves off, and each release is left as its new state says. */
  const putAwayAfterwards = ({ afterCommit }: Change, rows: readonly DeploymentRow[]): void => {
    afterCommit(() => {
      for (const row of rows) {
        parts.work.interrupt(row)
        parts.background.add(putAway(parts, row), { deployment: row.id, what: 'putting a release away' })
      }
    })
  }

  /** Gives the release its job; what is under way for what was wanted of it before leaves off. */
  const startAfterwards = async (change: Change): Promise<Detail> => {
    const row = await read(change)
    await enqueueWork(change.transaction, parts.store, row)
    change.afterCommit(() => parts.work.interrupt({ id: row.id, intent: row.intent - 1 }))
    return describe(row)
  }

  return {
    async cancel(change) {
      const { id } = await read(change)
      if (!(await parts.store.cancel(change.transaction, id))) return already(change, 'canceled', 'cancel')
      const row = await read(change)
      await parts.announce(change.transaction, {
        event: 'deployment.canceled',
        row,
        url: parts.urlOf({ address: addressOf(row) }),
      })
      putAwayAfterwards(change, [row])
      return describe(row)
    },

    async stop(change) {
      const { id } = await read(change)
      if (!(await parts.store.stop(change.transaction, id))) return already(change, 'stopped', 'stop')
      const row = await read(change)
      putAwayAfterwards(change, [row])
      return describe(row)
    },

    async rollback(change) {
      const row = await read(change)
      const { ok, superseded } = await parts.store.rollBack(change.transaction, row)
      if (!ok) throw refuse(await read(change), 'rollback')
      putAwayAfterwards(change, superseded)
      return startAfterwards(change)
    },

    async restart(change) {
      const row = await read(change)
      const ok = await parts.store.restart(change.transaction, row)
      // Asked under the lock of the app that the change has taken.
      const active = await parts.store.active(change.transaction, row.app_id)
      const other = active.find(({ id }) => id !== row.id)
      if (other !== undefined) throw otherIsActive(row, other)
      if (!ok) throw refuse(await read(change), 'restart')
      return startAfterwards(change)
    },

    async delete(change) {
      const row = await read(change)
      const { ok, appGone } = await parts.store.delete(change.transaction, row)
      if (!ok) throw refuse(await read(change), 'delete')
      change.afterCommit(() => {
        parts.work.interrupt(row)
        parts.background.add(removeRow(parts, row, { appGone }), { deployment: row.id, what: 'removing a deployment' })
      })
    },
  }
}

/** Removes what a deployment that is gone has left: processes, files, logs, and its app's address with the last one. */
export async function removeRow(
  parts: DeployParts,
  row: DeploymentRow,
  { appGone }: { readonly appGone: boolean },
): Promise<void> {
  if (appGone) await parts.listening.close(row.app_id)
  await putAway(parts, row)
  await parts.releases.removeLog(row.app_id, row.id)
  if (appGone) await parts.releases.removeApp(row.app_id)
}

type Verb = 'cancel' | 'stop' | 'rollback' | 'restart' | 'delete'

const doing: Readonly<Record<Verb, string>> = {
  cancel: 'canceled',
  stop: 'stopped',
  rollback: 'rolled back to',
  restart: 'restarted',
  delete: 'deleted',
}

/** What the reader can do, by the action and the state. */
const advice: Readonly<Record<Verb, Partial<Record<DeploymentRow['status'], string>>>> = {
  cancel: { running: 'Stop it instead.' },
  stop: { building: 'Cancel it instead.' },
  rollback: { building: 'Wait for its end, or cancel it.', running: 'Restart it to start it anew.' },
  restart: { building: 'Wait for its end, or cancel it.' },
  delete: { building: 'Cancel it first.', running: 'Stop it first.' },
}

function refuse(row: DeploymentRow, verb: Verb): ApiError {
  const notKept = (verb === 'rollback' || verb === 'restart') && !row.retained
  const why = advice[verb][row.status] ?? (notKept ? 'Its release is not kept. Create a new deployment.' : '')
  const message = `This deployment is ${row.status} and cannot be ${doing[verb]}. ${why}`.trimEnd()
  return new ApiError('invalid_request', message, { status: row.status })
}

function otherIsActive(row: DeploymentRow, other: DeploymentRow): ApiError {
  const what =
    other.status === 'running'
      ? `${other.id} runs at the address of this app. Roll back to ${row.id} instead.`
      : `${other.id} of the same app is building. Wait for its end, or cancel it.`
  return new ApiError('invalid_request', what, { status: row.status })
}
