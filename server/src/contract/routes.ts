/**
 * Where each operation of /v1 is mounted: plain data without zod, so that the typed client stays small.
 * What goes in and out of each stands in `operations.ts` under the same name.
 */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Relative to the base address, in the specification's notation (`/projects/:project_id`). */
  readonly path: `/${string}`
  /** The scope that a key must hold. */
  readonly scope: Scope
  /** The one success status: 200 reads and actions, 201 creations, 204 deletions. */
  readonly status: 200 | 201 | 204
}

export const resources = ['projects', 'deployments', 'webhooks'] as const
export type Resource = (typeof resources)[number]
export type Scope = `${Resource}:${'read' | 'write'}`

export const routes = {
  'projects.list': { method: 'GET', path: '/projects', scope: 'projects:read', status: 200 },
  'projects.create': { method: 'POST', path: '/projects', scope: 'projects:write', status: 201 },
  'projects.get': { method: 'GET', path: '/projects/:project_id', scope: 'projects:read', status: 200 },

  'deployments.list': {
    method: 'GET',
    path: '/projects/:project_id/deployments',
    scope: 'deployments:read',
    status: 200,
  },
  'deployments.create': {
    method: 'POST',
    path: '/projects/:project_id/deployments',
    scope: 'deployments:write',
    status: 201,
  },
  'deployments.get': {
    method: 'GET',
    path: '/projects/:project_id/deployments/:id',
    scope: 'deployments:read',
    status: 200,
  },

  'webhooks.list': { method: 'GET', path: '/webhooks', scope: 'webhooks:read', status: 200 },
  'webhooks.create': { method: 'POST', path: '/webhooks', scope: 'webhooks:write', status: 201 },
  'webhooks.delete': { method: 'DELETE', path: '/webhooks/:id', scope: 'webhooks:write', status: 204 },
} as const satisfies Record<`${Resource}.${string}`, Route>

export type OperationName = keyof typeof routes

type ParamsOf<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Name | ParamsOf<Tail>
    : Rest
  : never

/** The names of the path parameters of an operation. */
export type PathParam<Name extends OperationName> = ParamsOf<(typeof routes)[Name]['path']>
