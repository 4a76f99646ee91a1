import type { Router } from '@koa/router'
import { operations } from '../../contract/operations.ts'
import type { OperationName } from '../../contract/routes.ts'
import { jsonBody } from '../body.ts'
import { authorize, type Principal } from '../principal.ts'
import { createRouter } from '../router.ts'
import type { Changes } from './changes.ts'
import { handleOperation, type OperationDependencies, type RequestState } from './handle.ts'

export type MountOptions = OperationDependencies

export interface OperationsState extends RequestState {
  principal: Principal
  /** Set as soon as a route matches. */
  operation?: OperationName
}

/**
 * Mounts every operation of the contract on a router. Expects `ctx.state.principal`.
 * Order of checks: permission (403), query and body (400), existence (404).
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
