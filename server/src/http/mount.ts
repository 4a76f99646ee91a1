import { isDeepStrictEqual } from 'node:util'
import { Router, type RouterContext } from '@koa/router'
import { notFound } from '../contract/errors.ts'
import { type IdKind, isId } from '../contract/ids.ts'
import { type BodyOutput, type Operation, operations, type ResponseBody } from '../contract/operations.ts'
import type { OperationName, PathParam, Resource } from '../contract/routes.ts'
import { jsonBody } from './body.ts'
import { authorize, type Principal, type TenantProject } from './principal.ts'
import { parseBody } from './validation.ts'

/** What a handler is called with: checked, parsed and inside its tenant. */
export interface Call<Name extends OperationName> {
  readonly principal: Principal
  /** The project of the path, present exactly where the path has one. */
  readonly project: 'project_id' extends PathParam<Name> ? TenantProject : undefined
  readonly params: Readonly<Record<PathParam<Name>, string>>
  readonly body: BodyOutput<Name>
}

/** One handler for each operation; what it returns is stripped to the declared response. */
export type Handlers<Name extends OperationName = OperationName> = {
  readonly [N in Name]: (call: Call<N>) => Promise<ResponseBody<N>>
}

export interface MountOptions {
  readonly handlers: Handlers
  /** The tenant layer: the project, if it belongs to the principal's account; otherwise `undefined`. */
  readonly findProject: (principal: Principal, projectId: string) => Promise<TenantProject | undefined>
  /** Whether a response with a field that is not declared is an error instead of being stripped; for tests. */
  readonly strict: boolean
}

export interface ApiState {
  principal: Principal
}

/** What `:id` names in the paths of a resource. */
const idKinds: Readonly<Record<Resource, IdKind>> = {
  projects: 'project',
  deployments: 'deployment',
  webhooks: 'webhook',
}

/**
 * Mounts every operation of the contract on a router. Expects `ctx.state.principal`.
 * Order of checks: permission (403), body (400), existence (404).
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
          authorize(ctx.state.principal, operation.scope, ctx.params['project_id'])
          await next()
        },
        ...(operation.body ? [readBody] : []),
        (ctx) => answer(ctx, operation, options),
      ],
    )
  }
  return router
}

async function answer(ctx: RouterContext<ApiState>, operation: Operation, options: MountOptions): Promise<void> {
  const body = operation.body && parseBody(operation.body, ctx.request.body)
  const projectId = ctx.params['project_id']
  const project = projectId === undefined ? undefined : await options.findProject(ctx.state.principal, projectId)
  if (projectId !== undefined && project === undefined) throw notFound()
  const id = ctx.params['id']
  if (id !== undefined && !isId(idKinds[operation.name.split('.')[0] as Resource], id)) throw notFound()

  // The table joins each name to its own types; going through it by name loses that.
  const handle = options.handlers[operation.name] as (call: unknown) => Promise<unknown>
  const result = await handle({ principal: ctx.state.principal, project, params: ctx.params, body })

  ctx.status = operation.status
  if (operation.response === undefined) return
  const stripped = operation.response.parse(result)
  if (options.strict && !isDeepStrictEqual(stripped, result)) {
    throw new Error(`${operation.name} answered with something that it does not declare: ${JSON.stringify(result)}`)
  }
  if (operation.status === 201) ctx.set('Location', `${ctx.path}/${(stripped as { id: string }).id}`)
  ctx.body = stripped
}
