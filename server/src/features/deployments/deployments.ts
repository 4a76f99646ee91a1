import type { DeploymentTrigger } from '../../contract/deployments.ts'
import { ApiError, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf, RequestFacts } from '../../http/call.ts'
import type { Page, PageRequest } from '../../http/page.ts'
import { mayUseProject, type Principal, type TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { App, AppDirectory } from './app-directory.ts'
import { notifyChange } from './changes.ts'
import { type CreateDeployment, triggerOf } from './create.ts'
import type { Logs, LogsRequest } from './logs.ts'
import type { AnnounceOutcome, UrlOf } from './outcome.ts'
import { detailOf, itemOf } from './presentation.ts'
import { enqueueDeployment } from './queue.ts'
import { bringBackSuperseded, type DeploymentStore } from './rows.ts'
import type { DeploymentSecrets } from './secrets.ts'
import type { DeploymentRow, DeploymentWithLatest } from './tables.ts'

export function deploymentHandlers(parts: {
  readonly deployments: DeploymentRequests
  readonly lifecycle: Lifecycle
  readonly logs: Logs
}): HandlersOf<'deployments' | 'logs'> {
  const { deployments, lifecycle, logs } = parts
  return {
    'deployments.list': ({ project, page }) => deployments.list(project, page),
    'deployments.create': ({ principal, project, transaction, body }) =>
      deployments.create(transaction, project, body, {
        principal,
        trigger: triggerOf(principal),
        mayUse: (projectId) => mayUseProject(principal, projectId),
      }),
    'deployments.get': ({ project, params }) => deployments.get(project, params.id),
    'deployments.delete': async (call) => {
      await lifecycle.delete(change(call))
      return undefined
    },
    'deployments.cancel': (call) => lifecycle.cancel(change(call)),
    'deployments.rollback': (call) => lifecycle.rollback(change(call)),
    'deployments.stop': (call) => lifecycle.stop(change(call)),
    'deployments.restart': (call) => lifecycle.restart(change(call)),
    'deployments.logs': ({ project, params, query, request }) => {
      const { wanted, follows } = logsRequest(query, request)
      return follows ? logs.follow(project, params.id, wanted, request) : logs.tail(project, params.id, wanted)
    },
    'logs.read': ({ project, params, query, request }) => {
      const { wanted, follows } = logsRequest(query, request)
      return follows
        ? logs.followApp(project, params.app_id, wanted, request)
        : logs.tailApp(project, params.app_id, wanted)
    },
    'logs.follow': async ({ principal, query, request }) =>
      logs.followSeveral(principal.accountId, query.follow, request),
  }
}

/** The headers of server-sent events (WHATWG HTML, 9.2) ask to follow a log, and say from where. */
function logsRequest(query: Omit<LogsRequest, 'lastEventId'>, { message }: RequestFacts) {
  const { accept, 'last-event-id': lastEventId } = message.headers
  const wanted = { ...query, lastEventId: typeof lastEventId === 'string' ? lastEventId : undefined }
  return { wanted, follows: (accept ?? '').includes('text/event-stream') }
}

function change(
  call: Omit<Change, 'id' | 'by'> & { readonly principal: Principal; readonly params: { readonly id: string } },
): Change {
  const { transaction, project, params, principal } = call
  return { transaction, by: triggerOf(principal), project, id: params.id }
}

interface DeploymentRequests {
  readonly create: CreateDeployment
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'deployments.list'>>>
  /** Throws `not_found`. */
  get(project: TenantProject, id: string): Promise<ResponseBody<'deployments.get'>>
}

export function createDeploymentRequests(dependencies: {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'ofProjects'>
  readonly apps: Pick<AppDirectory, 'byIds'>
  readonly details: DeploymentDetails
  readonly create: CreateDeployment
  readonly urlOf: UrlOf
}): DeploymentRequests {
  const { database, store, apps, details, create, urlOf } = dependencies
  return {
    create,

    async list(project, page) {
      const { rows, next } = await store.ofProjects.list(project.id, page)
      const byId = await apps.byIds(
        database,
        rows.map((row) => row.app_id),
      )
      const deployments = rows.flatMap((row) => {
        const app = byId.get(row.app_id)
        // Deleted between the two reads.
        return app === undefined ? [] : [itemOf(row, app, urlOf)]
      })
      return { body: { deployments }, next }
    },

    get: async (project, id) => details.show(await details.find(database, project, id)),
  }
}

type Detail = ResponseBody<'deployments.get'>

interface Change {
  readonly transaction: Transaction
  readonly by: DeploymentTrigger
  readonly project: TenantProject
  readonly id: string
}

/**
 * Changes of deployments by their owners. Each is one state change in the request's transaction. The leader is notified
 * after the commit, and updates the instances. All throw `not_found`, and `invalid_request` with advice when the state
 * does not allow the change.
 */
interface Lifecycle {
  cancel(change: Change): Promise<Detail>
  stop(change: Change): Promise<Detail>
  rollback(change: Change): Promise<Detail>
  restart(change: Change): Promise<Detail>
  delete(change: Change): Promise<void>
}

interface LifecycleDependencies {
  readonly store: Pick<DeploymentStore, 'requests' | 'rows' | 'ofProjects'>
  readonly details: DeploymentDetails
  /** Throws `server_error` when the disk is nearly full. */
  readonly assertRoom: () => Promise<void>
  readonly totals: Pick<Totals, 'takeOne'>
  readonly announce: AnnounceOutcome
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
      // Read under the app's lock, which the change has taken.
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

/** Answers a request for a state that the deployment already has; refuses every other request. */
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

/** Counts a start in the account's hour. A start builds nothing, so it needs no build slot. */
function takeStart({ totals }: LifecycleDependencies, { transaction, project }: Change): Promise<void> {
  return totals.takeOne(transaction, project.accountId, 'deployments_per_hour')
}

/** Jobs for earlier generations will be interrupted. */
async function enqueueStart({ store, details }: LifecycleDependencies, change: Change): Promise<Detail> {
  const { transaction, project, id } = change
  const found = await details.find(transaction, project, id)
  await enqueueDeployment(transaction, store.ofProjects, found.row)
  await notifyOf(change, found.row)
  return details.show(found)
}

type Verb = 'cancel' | 'stop' | 'rollback' | 'restart' | 'delete'

const participles: Readonly<Record<Verb, string>> = {
  cancel: 'canceled',
  stop: 'stopped',
  rollback: 'rolled back to',
  restart: 'restarted',
  delete: 'deleted',
}

const advice: Readonly<Record<Verb, Partial<Record<DeploymentRow['status'], string>>>> = {
  cancel: { running: 'Stop it instead.' },
  stop: { building: 'Cancel it instead.' },
  rollback: { building: 'Wait for its end, or cancel it.', running: 'Restart it instead.' },
  restart: { building: 'Wait for its end, or cancel it.' },
  delete: { building: 'Cancel it first.', running: 'Stop it first.' },
}

function refusal(row: DeploymentRow, verb: Verb): ApiError {
  const notRetained = (verb === 'rollback' || verb === 'restart') && !row.retained
  const why = advice[verb][row.status] ?? (notRetained ? 'Its release is not kept. Create a new deployment.' : '')
  const message = `This deployment is ${row.status} and cannot be ${participles[verb]}. ${why}`.trimEnd()
  return new ApiError('invalid_request', message, { status: row.status })
}

function otherIsActive(row: DeploymentRow, other: DeploymentRow): ApiError {
  const message =
    other.status === 'running'
      ? `${other.id} runs at the address of this app. Roll back to ${row.id} instead.`
      : `${other.id} of the same app is building. Wait for its end, or cancel it.`
  return new ApiError('invalid_request', message, { status: row.status })
}

interface FoundDeployment {
  readonly row: DeploymentWithLatest
  readonly app: App
}

interface DeploymentDetails {
  find(on: Database | Transaction, project: TenantProject, id: string): Promise<FoundDeployment>
  show(found: FoundDeployment): ResponseBody<'deployments.get'>
}

export function createDeploymentDetails({
  store,
  apps,
  secrets,
  urlOf,
}: {
  readonly store: Pick<DeploymentStore, 'ofProjects'>
  readonly apps: Pick<AppDirectory, 'byIds'>
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly urlOf: UrlOf
}): DeploymentDetails {
  return {
    async find(on, project, id) {
      const row = await store.ofProjects.get(on, project.id, id)
      if (row === undefined) throw notFound()
      const app = (await apps.byIds(on, [row.app_id])).get(row.app_id)
      // Deleted between the two reads.
      if (app === undefined) throw notFound()
      return { row, app }
    },
    show: ({ row, app }) => detailOf(row, app, secrets.variablesOf(row), urlOf),
  }
}
