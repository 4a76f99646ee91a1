import { Router, type RouterContext } from '@koa/router'
import type { z } from 'zod'
import { notFound } from '../contract/errors.ts'
import { type IdKind, isId } from '../contract/ids.ts'
import { type Operation, operations } from '../contract/operations.ts'
import type { Group, OperationName } from '../contract/routes.ts'
import type { Transaction } from '../platform/database.ts'
import { type Answer, renderAnswer, sendAnswer } from './answer.ts'
import type { Audit } from './audit.ts'
import { jsonBody } from './body.ts'
import type { Call, Handlers, RequestFacts } from './call.ts'
import type { Changes } from './changes.ts'
import { claimOf } from './idempotency.ts'
import { pageQuery, pageRequest } from './page.ts'
import { authorize, isAuthorized, type Principal, type TenantProject } from './principal.ts'
import { parseBody, parseQuery } from './validation.ts'

export interface MountOptions {
  readonly handlers: Handlers
  /** The tenant layer: the project, if it belongs to the principal's account; otherwise `undefined`. */
  readonly findProject: (principal: Principal, projectId: string) => Promise<TenantProject | undefined>
  /** Keeps a project from being deleted until the transaction ends; false when it is being deleted already. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  /** Whether a response with a field that is not declared is an error instead of being stripped; for tests. */
  readonly strict: boolean
  readonly audit: Audit
}

export interface ApiState {
  principal: Principal
  /** Asks again who asks; `undefined` when the key or session does not hold any more. */
  authenticateAgain: () => Promise<Principal | undefined>
  requestId: string
  address: string
  /** Known as soon as a route fits. */
  operation?: OperationName
}

/** What the parameters of paths name; `:id` is of its operation's group. */
const groupKinds: Readonly<Record<Group, IdKind>> = {
  projects: 'project',
  storage: 'file',
  deployments: 'deployment',
  databases: 'database',
  snapshots: 'snapshot',
  webhooks: 'webhook',
  deliveries: 'delivery',
  account: 'account',
  apiKeys: 'key',
  auditLog: 'auditEntry',
}

/** What `:id` in an operation's path identifies. */
export function kindOf({ name }: Pick<Operation, 'name'>): IdKind {
  return groupKinds[name.split('.')[0] as Group]
}

/**
 * Mounts every operation of the contract on a router. Expects `ctx.state.principal`.
 * Order of checks: permission (403), query and body (400), existence (404).
 */
export function mountOperations(options: MountOptions, changes: Changes): Router<ApiState> {
  // To the letter: what is made of a path (a Location, a Link, what a repeated request is known by) has one form.
  const router = new Router<ApiState>({ strict: true, sensitive: true })
  const readBody = jsonBody()
  for (const operation of operations) {
    router.register(
      operation.path,
      [operation.method],
      [
        async (ctx, next) => {
          ctx.state.operation = operation.name
          authorize(ctx.state.principal, operation, ctx.params['project_id'])
          await next()
        },
        ...(operation.body ? [readBody] : []),
        (ctx) => answer(ctx, operation, options, changes),
      ],
    )
  }
  return router
}

/** Calls without their type parameter: the table joins each name to its own types; going through it by name loses that. */
type AnyCall = { readonly [Part in keyof Call<'projects.get'>]: unknown }
type AnyHandler = (call: AnyCall) => Promise<unknown>

async function answer(
  ctx: RouterContext<ApiState>,
  operation: Operation,
  options: MountOptions,
  changes: Changes,
): Promise<void> {
  const { principal } = ctx.state
  const listed = operation.list && parseQuery(pageQuery, ctx.query)
  const query = operation.query && parseQuery(operation.query, ctx.query)
  const body = operation.body && parseBody(operation.body, ctx.request.body)
  const { path } = ctx
  const claim = claimOf(operation, { header: ctx.req.headers['idempotency-key'], principal, path, body })
  const projectId = ctx.params['project_id']
  const project = projectId === undefined ? undefined : await options.findProject(principal, projectId)
  if (projectId !== undefined && project === undefined) throw notFound()
  checkIds(ctx.params, operation)

  const handle = options.handlers[operation.name] as AnyHandler
  const afterCommit: (() => void)[] = []
  const audit = (transaction: Transaction, resourceId: string | null) =>
    options.audit(transaction, {
      accountId: principal.accountId,
      actor: principal.actor,
      address: ctx.state.address,
      requestId: ctx.state.requestId,
      operation: operation.name,
      projectId: projectId ?? null,
      resourceId,
    })
  const callIn = async (transaction: Transaction | undefined): Promise<Answer> => {
    // What is made in a project that is deleted at the same moment would be lost with it.
    if (transaction !== undefined && project !== undefined && operation.method === 'POST') {
      if (!(await options.holdProject(transaction, project.id))) throw notFound()
    }
    const result = await handle({
      principal,
      project,
      params: ctx.params,
      query,
      page: listed && pageRequest(listed as z.output<typeof pageQuery>),
      body,
      transaction,
      audit: operation.upload && audit,
      afterCommit: (work: () => void) => void afterCommit.push(work),
      request: requestFacts(ctx, operation),
    })
    if (transaction !== undefined) await audit(transaction, resourceId(ctx.params, result))
    return renderAnswer(operation, result, { path, params: ctx.params, query: ctx.query, strict: options.strict })
  }
  const answered = isChange(operation)
    ? await changes({ id: ctx.state.requestId, claim }, callIn)
    : await callIn(undefined)
  for (const work of afterCommit) work()
  sendAnswer(ctx, answered)
}

/** What was changed: what the answer is about, else the last thing that the path names. */
function resourceId(params: Readonly<Record<string, string>>, result: unknown): string | null {
  return (result as { id?: string } | undefined)?.id ?? params['id'] ?? params['project_id'] ?? null
}

function isChange(operation: Operation): boolean {
  return operation.method !== 'GET' && operation.upload === undefined
}

/** What is malformed in a path does not exist; the database is not asked, and would choke on some of it. */
function checkIds(params: Readonly<Record<string, string>>, operation: Operation): void {
  for (const [param, value] of Object.entries(params)) {
    const kind = param === 'id' ? kindOf(operation) : (param.slice(0, -3) as IdKind)
    if (!isId(kind, value)) throw notFound()
  }
}

function requestFacts(ctx: RouterContext<ApiState>, operation: Operation): RequestFacts {
  return {
    id: ctx.state.requestId,
    address: ctx.state.address,
    message: ctx.req,
    get signal() {
      const gone = new AbortController()
      ctx.res.once('close', () => gone.abort())
      return gone.signal
    },
    async mayGoOn() {
      const principal = await ctx.state.authenticateAgain()
      return principal !== undefined && isAuthorized(principal, operation, ctx.params['project_id'])
    },
  }
}
