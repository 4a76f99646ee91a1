/**
 * Where each operation of /v1 is mounted: plain data without zod, so that the typed client stays small.
 * What goes in and out of each stands in `resources/` under the same name.
 */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Relative to the base address, in the specification's notation (`/projects/:project_id`). */
  readonly path: `/${string}`
  readonly access: Access
  /** The one success status: 200 reads and actions, 201 creations, 204 deletions. */
  readonly status: 200 | 201 | 204
  /** Takes `limit` and `cursor`, and names the next page in a `Link` header. */
  readonly list?: true
  /** Answers with something other than JSON. */
  readonly text?: true
  /** Takes a stream of bytes instead of a JSON body, so that nothing of it fits into a transaction. */
  readonly upload?: true
}

/** What permissions are given for. */
export const scopeResources = ['projects', 'deployments', 'databases', 'storage', 'webhooks'] as const
export type Scope = `${(typeof scopeResources)[number]}:${'read' | 'write'}`

/** The scope that a key must hold; `any` for every valid key; `user` for signed-in users alone. */
export type Access = Scope | 'any' | 'user'

export const routes = {
  'projects.list': { method: 'GET', path: '/projects', access: 'projects:read', status: 200, list: true },
  'projects.create': { method: 'POST', path: '/projects', access: 'projects:write', status: 201 },
  'projects.get': { method: 'GET', path: '/projects/:project_id', access: 'projects:read', status: 200 },
  'projects.update': { method: 'PATCH', path: '/projects/:project_id', access: 'projects:write', status: 200 },
  'projects.delete': { method: 'DELETE', path: '/projects/:project_id', access: 'projects:write', status: 204 },

  'deployments.list': {
    method: 'GET',
    path: '/projects/:project_id/deployments',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'deployments.create': {
    method: 'POST',
    path: '/projects/:project_id/deployments',
    access: 'deployments:write',
    status: 201,
  },
  'deployments.get': {
    method: 'GET',
    path: '/projects/:project_id/deployments/:id',
    access: 'deployments:read',
    status: 200,
  },
  'deployments.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/deployments/:id',
    access: 'deployments:write',
    status: 204,
  },
  'deployments.cancel': {
    method: 'POST',
    path: '/projects/:project_id/deployments/:id/cancel',
    access: 'deployments:write',
    status: 200,
  },
  'deployments.rollback': {
    method: 'POST',
    path: '/projects/:project_id/deployments/:id/rollback',
    access: 'deployments:write',
    status: 200,
  },
  'deployments.stop': {
    method: 'POST',
    path: '/projects/:project_id/deployments/:id/stop',
    access: 'deployments:write',
    status: 200,
  },
  'deployments.restart': {
    method: 'POST',
    path: '/projects/:project_id/deployments/:id/restart',
    access: 'deployments:write',
    status: 200,
  },
  'deployments.logs': {
    method: 'GET',
    path: '/projects/:project_id/deployments/:id/logs',
    access: 'deployments:read',
    status: 200,
    text: true,
  },

  'webhooks.list': { method: 'GET', path: '/webhooks', access: 'webhooks:read', status: 200, list: true },
  'webhooks.create': { method: 'POST', path: '/webhooks', access: 'webhooks:write', status: 201 },
  'webhooks.delete': { method: 'DELETE', path: '/webhooks/:id', access: 'webhooks:write', status: 204 },
} as const satisfies Record<string, Route>

export type OperationName = keyof typeof routes

/** The first part of an operation's name: `projects` of `projects.list`. */
export type Group = OperationName extends infer Name ? (Name extends `${infer G}.${string}` ? G : never) : never

type ParamsOf<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Name | ParamsOf<Tail>
    : Rest
  : never

/** The names of the path parameters of an operation. */
export type PathParam<Name extends OperationName> = ParamsOf<(typeof routes)[Name]['path']>

/** The operations that answer with a page of a list. */
export type ListName = {
  [Name in OperationName]: (typeof routes)[Name] extends { list: true } ? Name : never
}[OperationName]
