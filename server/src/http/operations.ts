import type { Router, RouterContext } from '@koa/router'
import { DatabaseError } from 'pg'
import type { z } from 'zod'
import { notFound } from '../contract/errors.ts'
import { isId, paramKind } from '../contract/ids.ts'
import { type Operation, operations } from '../contract/operations.ts'
import type { OperationName } from '../contract/routes.ts'
import type { RequestTransactions } from '../platform/database/request-transactions.ts'
import type { Transaction } from '../platform/database.ts'
import { nameRequest } from '../platform/jobs.ts'
import type { SecretBox } from '../platform/secrets.ts'
import { type Answer, renderAnswer, sendAnswer } from './answers.ts'
import { jsonBody } from './bodies.ts'
import type { Audit, Call, Handlers, RequestFacts } from './call.ts'
import { type Claim, claimOf, createIdempotency } from './idempotency.ts'
import { pageQuery, pageRequest } from './page.ts'
import { authorize, isAuthorized, type Principal, type TenantProject } from './principal.ts'
import { createRouter } from './router.ts'
import { parseBody, parseQuery, queryOf } from './validation.ts'

export type MountOptions = OperationDependencies

export interface OperationsState extends RequestState {
  principal: Principal
  operation?: OperationName
}

/**
 * Mounts every operation on a router. Expects `ctx.state.principal`. The checks, in order: permission (403), query and
 * body (400), existence (404).
 */
export function mountOperations(options: MountOptions, changes: Changes): Router<OperationsState> {
  const router = createRouter<OperationsState>()
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
        (ctx) => handleOperation(ctx, operation, options, changes),
      ],
    )
  }
  return router
}

interface OperationDependencies {
  readonly handlers: Handlers
  /** Resolves to `undefined` for projects of other accounts. */
  readonly findProject: (principal: Principal, projectId: string) => Promise<TenantProject | undefined>
  /** Keeps a project from being deleted until the transaction ends; false when its deletion has begun. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  /** True, in tests, when an undeclared field in an answer is an error. Otherwise the field is removed. */
  readonly strict: boolean
  readonly audit: Audit
  /** Throws while nothing can be written, because the disk is full. */
  readonly assertWritable: () => Promise<void>
}

interface RequestState {
  principal: Principal
  /** Authenticates again; resolves to `undefined` when the key or session is no longer valid. */
  authenticateAgain: () => Promise<Principal | undefined>
  requestId: string
  address: string
}

/** A handler found by a computed name loses the link to its types. */
type AnyCall = { readonly [Part in keyof Call<'projects.get'>]: unknown }
type AnyHandler = (call: AnyCall) => Promise<unknown>

/**
 * Answers a request to one operation whose permission was checked: validates it, calls the handler, sends the result.
 */
async function handleOperation(
  ctx: RouterContext<RequestState>,
  operation: Operation,
  { handlers, findProject, holdProject, strict, audit, assertWritable }: OperationDependencies,
  changes: Changes,
): Promise<void> {
  const { principal, requestId } = ctx.state
  const { path } = ctx
  const input = parseInput(ctx, operation)
  const claim = claimOf(operation, {
    header: ctx.req.headers['idempotency-key'],
    principal,
    path,
    body: input.body,
  })
  // Deletions free disk space, so they stay possible.
  if (operation.method === 'POST' || operation.method === 'PATCH') await assertWritable()
  const project = await projectOf(ctx, findProject)
  checkIds(ctx.params, operation)

  const handle = handlers[operation.name] as AnyHandler
  const afterCommit: (() => void | Promise<void>)[] = []
  let details: Readonly<Record<string, unknown>> | undefined
  const record = (transaction: Transaction, resourceId: string | null) =>
    audit(transaction, {
      ...auditedRequest(ctx, operation),
      projectId: project?.id ?? null,
      resourceId,
      ...(details === undefined ? {} : { details }),
    })
  const note = (facts: Readonly<Record<string, unknown>>) => {
    details = facts
  }
  const call = async (transaction: Transaction | undefined): Promise<Answer> => {
    // An earlier attempt was rolled back.
    afterCommit.length = 0
    // Otherwise a concurrent deletion of the project would lose the new resource.
    if (transaction !== undefined && project !== undefined && operation.method === 'POST') {
      if (!(await holdProject(transaction, project.id))) throw notFound()
    }
    const result = await handle({
      principal,
      project,
      params: ctx.params,
      ...input,
      transaction,
      audit: operation.method !== 'GET' && transaction === undefined ? record : undefined,
      note,
      afterCommit: (callback: () => void | Promise<void>) => void afterCommit.push(callback),
      request: requestFacts(ctx, operation),
    })
    if (transaction !== undefined) await record(transaction, resourceIdOf(ctx.params, result))
    return renderAnswer(operation, result, { path, params: ctx.params, query: queryOf(ctx), strict })
  }
  const answered = isChange(operation)
    ? changes({ id: requestId, accountId: principal.accountId, claim }, call)
    : call(undefined)
  const answer = await answered.catch((error: unknown) => {
    throw operation.method !== 'DELETE' && isParentGone(error) ? notFound() : error
  })
  for (const callback of afterCommit) await callback()
  sendAnswer(ctx, answer)
}

/** Validates query and body. Throws `invalid_request`. */
function parseInput(ctx: RouterContext<RequestState>, operation: Operation): Pick<AnyCall, 'page' | 'query' | 'body'> {
  const page = operation.list && pageRequest(parseQuery(pageQuery, queryOf(ctx)) as z.output<typeof pageQuery>)
  const query = operation.query && parseQuery(operation.query, queryOf(ctx))
  const body = operation.body && parseBody(operation.body, ctx.request.body)
  return { page, query, body }
}

/** Resolves to the project of the path, if the path has a project. Throws `not_found`. */
async function projectOf(
  ctx: RouterContext<RequestState>,
  findProject: OperationDependencies['findProject'],
): Promise<TenantProject | undefined> {
  const projectId = ctx.params['project_id']
  if (projectId === undefined) return undefined
  const project = await findProject(ctx.state.principal, projectId)
  if (project === undefined) throw notFound()
  return project
}

function auditedRequest({ state }: { readonly state: RequestState }, { name }: Operation) {
  return {
    accountId: state.principal.accountId,
    actor: state.principal.actor,
    address: state.address,
    requestId: state.requestId,
    operation: name,
  }
}

/** Returns the id of the changed resource: the id in the answer, or else the last id in the path. */
function resourceIdOf(params: Readonly<Record<string, string>>, result: unknown): string | null {
  return (result as { id?: string } | undefined)?.id ?? Object.values(params).at(-1) ?? null
}

function isChange(operation: Operation): boolean {
  return operation.method !== 'GET' && operation.upload === undefined && !operation.waits
}

/** Throws `not_found` for a malformed id before the database sees it: PostgreSQL rejects some strings. */
function checkIds(params: Readonly<Record<string, string>>, operation: Operation): void {
  for (const [param, value] of Object.entries(params)) {
    if (!isId(paramKind(operation, param), value)) throw notFound()
  }
}

function requestFacts(ctx: RouterContext<RequestState>, operation: Operation): RequestFacts {
  return {
    id: ctx.state.requestId,
    address: ctx.state.address,
    message: ctx.req,
    get signal() {
      const gone = new AbortController()
      const { socket } = ctx.req
      const leave = () => {
        socket.off('end', leave)
        gone.abort()
      }
      ctx.res.once('close', leave)
      // A client that ends its side while it follows a log has usually left. All other answers are still sent.
      if (operation.text === true) socket.once('end', leave)
      if (operation.text === true && socket.readableEnded) leave()
      return gone.signal
    },
    async mayGoOn() {
      const principal = await ctx.state.authenticateAgain()
      return principal !== undefined && isAuthorized(principal, operation, ctx.params['project_id'])
    },
  }
}

/** Runs a change in one transaction. A claim makes it run once and stores its answer. */
type Changes = (
  request: { readonly id: string; readonly accountId: string; readonly claim: Claim | undefined },
  change: (transaction: Transaction) => Promise<Answer>,
) => Promise<Answer>

export interface ChangesDependencies {
  readonly transact: RequestTransactions
  readonly secrets: SecretBox
}

export function createChanges({ transact, secrets }: ChangesDependencies): Changes {
  const idempotency = createIdempotency({ secrets })
  return ({ id, accountId, claim }, change) => {
    const named = (inside: (transaction: Transaction) => Promise<Answer>) =>
      transact(accountId, (transaction) => inside(nameRequest(transaction, id)))
    return claim === undefined ? named(change) : idempotency.once(claim, named, change)
  }
}

const foreignKeyViolation = '23503'
/** PostgreSQL's default names of constraints to a resource of the API. */
const ofResource = /_(?:project|app|deployment|domain|database|snapshot|webhook)_id_fkey$/

/**
 * True when the parent of a row is being deleted. Handlers hold the parents of new rows; this covers a handler that
 * does not. A deletion gets the same error when children remain, which is a fault of the server.
 */
export const isParentGone = (error: unknown): boolean =>
  error instanceof DatabaseError && error.code === foreignKeyViolation && ofResource.test(error.constraint ?? '')
