import { isDeepStrictEqual } from 'node:util'
import { Router, type RouterContext } from '@koa/router'
import type { z } from 'zod'
import { notFound } from '../contract/errors.ts'
import { type IdKind, isId } from '../contract/ids.ts'
import { type Operation, operations } from '../contract/operations.ts'
import type { Group } from '../contract/routes.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { jsonBody } from './body.ts'
import type { Call, Handlers, RequestFacts, TextAnswer } from './call.ts'
import { nextLink, type Page, pageQuery, pageRequest } from './page.ts'
import { authorize, type Principal, type TenantProject } from './principal.ts'
import { parseBody, parseQuery } from './validation.ts'

export interface MountOptions {
  readonly database: Database
  readonly handlers: Handlers
  /** The tenant layer: the project, if it belongs to the principal's account; otherwise `undefined`. */
  readonly findProject: (principal: Principal, projectId: string) => Promise<TenantProject | undefined>
  /** Whether a response with a field that is not declared is an error instead of being stripped; for tests. */
  readonly strict: boolean
}

export interface ApiState {
  principal: Principal
  requestId: string
}

/** What the parameters of paths name; `:id` is of its operation's group. */
const groupKinds: Readonly<Record<Group, IdKind>> = {
  projects: 'project',
  deployments: 'deployment',
  databases: 'database',
  snapshots: 'snapshot',
  webhooks: 'webhook',
}

/**
 * Mounts every operation of the contract on a router. Expects `ctx.state.principal`.
 * Order of checks: permission (403), query and body (400), existence (404).
 */
export function mountOperations(options: MountOptions): Router<ApiState> {
  const router = new Router<ApiState>()
  const readBody = jsonBody()
  for (const operation of operations) {
    router.register(
      operation.path,
      [operation.method],
      [
        async (ctx, next) => {
          authorize(ctx.state.principal, operation.access, ctx.params['project_id'])
          await next()
        },
        ...(operation.body ? [readBody] : []),
        (ctx) => answer(ctx, operation, options),
      ],
    )
  }
  return router
}

/** Calls without their type parameter: the table joins each name to its own types; going through it by name loses that. */
type AnyCall = { readonly [Part in keyof Call<'projects.get'>]: unknown }
type AnyHandler = (call: AnyCall) => Promise<unknown>

async function answer(ctx: RouterContext<ApiState>, operation: Operation, options: MountOptions): Promise<void> {
  const { principal } = ctx.state
  const listed = operation.list && parseQuery(pageQuery, ctx.query)
  const query = operation.query && parseQuery(operation.query, ctx.query)
  const body = operation.body && parseBody(operation.body, ctx.request.body)
  const projectId = ctx.params['project_id']
  const project = projectId === undefined ? undefined : await options.findProject(principal, projectId)
  if (projectId !== undefined && project === undefined) throw notFound()
  checkIds(ctx.params, operation)

  const handle = options.handlers[operation.name] as AnyHandler
  const afterCommit: (() => void)[] = []
  const callIn = (transaction: Transaction | undefined) =>
    handle({
      principal,
      project,
      params: ctx.params,
      query,
      page: listed && pageRequest(listed as z.output<typeof pageQuery>),
      body,
      transaction,
      afterCommit: (work: () => void) => void afterCommit.push(work),
      request: requestFacts(ctx),
    })
  const result = changes(operation)
    ? await options.database.transaction().execute((transaction) => callIn(transaction))
    : await callIn(undefined)
  for (const work of afterCommit) work()

  send(ctx, operation, result, options.strict)
}

function changes(operation: Operation): boolean {
  return operation.method !== 'GET' && operation.upload === undefined
}

/** What is malformed in a path does not exist; the database is not asked, and would choke on some of it. */
function checkIds(params: Readonly<Record<string, string>>, operation: Operation): void {
  for (const [param, value] of Object.entries(params)) {
    const kind = param === 'id' ? groupKinds[operation.name.split('.')[0] as Group] : (param.slice(0, -3) as IdKind)
    if (!isId(kind, value)) throw notFound()
  }
}

function send(ctx: RouterContext<ApiState>, operation: Operation, result: unknown, strict: boolean): void {
  ctx.status = operation.status
  if (operation.text) {
    const { type, body } = result as TextAnswer
    ctx.type = type
    ctx.body = body
    return
  }
  if (operation.response === undefined) return
  const { body, next } = operation.list ? (result as Page<unknown>) : { body: result, next: null }
  const stripped = operation.response.parse(body)
  if (strict && !isDeepStrictEqual(stripped, body)) {
    throw new Error(`${operation.name} answered with something that it does not declare: ${JSON.stringify(body)}`)
  }
  if (next !== null) ctx.set('Link', nextLink(ctx.path, ctx.query, next))
  if (operation.status === 201) ctx.set('Location', `${ctx.path}/${(stripped as { id: string }).id}`)
  ctx.body = stripped
}

function requestFacts(ctx: RouterContext<ApiState>): RequestFacts {
  return {
    id: ctx.state.requestId,
    address: ctx.ip,
    message: ctx.req,
    get signal() {
      const gone = new AbortController()
      ctx.res.once('close', () => gone.abort())
      return gone.signal
    },
  }
}
