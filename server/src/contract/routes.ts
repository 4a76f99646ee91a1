/**
 * The route of an operation of /v1: plain data without zod, so that the typed client stays small. Its schemas are in
 * `resources/` under the same name.
 */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Relative to the base address, in the specification's notation (`/projects/:project_id`). */
  readonly path: `/${string}`
  readonly access: Access
  /** The success status: 200 for reads and actions, 201 for creations, 204 for deletions. */
  readonly status: 200 | 201 | 204
  /** Accepts `limit` and `cursor`, and links the next page in a `Link` header. */
  readonly list?: true
  /** Answers with something other than JSON. */
  readonly text?: true
  /** Accepts a stream of bytes instead of a JSON body. It takes too long to hold a transaction meanwhile. */
  readonly upload?: true
  /** Refuses keys that are bound to projects. */
  readonly wholeAccount?: true
}

/** The resources that permissions are given for. */
export const scopeResources = ['projects', 'deployments', 'databases', 'storage', 'webhooks'] as const
export type Scope = `${(typeof scopeResources)[number]}:${'read' | 'write'}`

/** The scope that a key must have; `any` for every valid key; `user` for signed-in users only. */
export type Access = Scope | 'any' | 'user'

export const routes = {
  'projects.list': { method: 'GET', path: '/projects', access: 'projects:read', status: 200, list: true },
  'projects.create': {
    method: 'POST',
    path: '/projects',
    access: 'projects:write',
    status: 201,
    wholeAccount: true,
  },
  'projects.get': { method: 'GET', path: '/projects/:project_id', access: 'projects:read', status: 200 },
  'projects.update': { method: 'PATCH', path: '/projects/:project_id', access: 'projects:write', status: 200 },
  'projects.delete': { method: 'DELETE', path: '/projects/:project_id', access: 'projects:write', status: 204 },
  'projects.traffic': { method: 'GET', path: '/projects/:project_id/traffic', access: 'projects:read', status: 200 },

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

  'storage.upload': {
    method: 'POST',
    path: '/projects/:project_id/storage/upload',
    access: 'storage:write',
    status: 201,
    upload: true,
  },
  'storage.list': {
    method: 'GET',
    path: '/projects/:project_id/storage/files',
    access: 'storage:read',
    status: 200,
    list: true,
  },
  'storage.get': {
    method: 'GET',
    path: '/projects/:project_id/storage/files/:id',
    access: 'storage:read',
    status: 200,
  },
  'storage.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/storage/files/:id',
    access: 'storage:write',
    status: 204,
  },

  'databases.list': {
    method: 'GET',
    path: '/projects/:project_id/databases',
    access: 'databases:read',
    status: 200,
    list: true,
  },
  'databases.create': {
    method: 'POST',
    path: '/projects/:project_id/databases',
    access: 'databases:write',
    status: 201,
  },
  'databases.get': {
    method: 'GET',
    path: '/projects/:project_id/databases/:id',
    access: 'databases:read',
    status: 200,
  },
  'databases.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/databases/:id',
    access: 'databases:write',
    status: 204,
  },
  'databases.restore': {
    method: 'POST',
    path: '/projects/:project_id/databases/:id/restore',
    access: 'databases:write',
    status: 200,
  },
  'databases.rotatePassword': {
    method: 'POST',
    path: '/projects/:project_id/databases/:id/rotate-password',
    access: 'databases:write',
    status: 200,
  },

  'snapshots.list': {
    method: 'GET',
    path: '/projects/:project_id/databases/:database_id/snapshots',
    access: 'databases:read',
    status: 200,
    list: true,
  },
  'snapshots.create': {
    method: 'POST',
    path: '/projects/:project_id/databases/:database_id/snapshots',
    access: 'databases:write',
    status: 201,
  },
  'snapshots.get': {
    method: 'GET',
    path: '/projects/:project_id/databases/:database_id/snapshots/:id',
    access: 'databases:read',
    status: 200,
  },
  'snapshots.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/databases/:database_id/snapshots/:id',
    access: 'databases:write',
    status: 204,
  },
  'snapshots.restore': {
    method: 'POST',
    path: '/projects/:project_id/databases/:database_id/snapshots/:id/restore',
    access: 'databases:write',
    status: 200,
  },

  'webhooks.list': { method: 'GET', path: '/webhooks', access: 'webhooks:read', status: 200, list: true },
  'webhooks.create': { method: 'POST', path: '/webhooks', access: 'webhooks:write', status: 201 },
  'webhooks.get': { method: 'GET', path: '/webhooks/:id', access: 'webhooks:read', status: 200 },
  'webhooks.update': { method: 'PATCH', path: '/webhooks/:id', access: 'webhooks:write', status: 200 },
  'webhooks.delete': { method: 'DELETE', path: '/webhooks/:id', access: 'webhooks:write', status: 204 },
  'webhooks.rotateSecret': {
    method: 'POST',
    path: '/webhooks/:id/rotate-secret',
    access: 'webhooks:write',
    status: 200,
  },
  'webhooks.test': { method: 'POST', path: '/webhooks/:id/test', access: 'webhooks:write', status: 200 },
  'webhooks.recover': { method: 'POST', path: '/webhooks/:id/recover', access: 'webhooks:write', status: 200 },

  'deliveries.list': {
    method: 'GET',
    path: '/webhooks/:webhook_id/deliveries',
    access: 'webhooks:read',
    status: 200,
    list: true,
  },
  'deliveries.get': {
    method: 'GET',
    path: '/webhooks/:webhook_id/deliveries/:id',
    access: 'webhooks:read',
    status: 200,
  },
  'deliveries.redeliver': {
    method: 'POST',
    path: '/webhooks/:webhook_id/deliveries/:id/redeliver',
    access: 'webhooks:write',
    status: 200,
  },

  'account.get': { method: 'GET', path: '/account', access: 'any', status: 200 },

  'apiKeys.list': { method: 'GET', path: '/api-keys', access: 'user', status: 200, list: true },
  'apiKeys.create': { method: 'POST', path: '/api-keys', access: 'user', status: 201 },
  'apiKeys.delete': { method: 'DELETE', path: '/api-keys/:id', access: 'user', status: 204 },
  'apiKeys.rotate': { method: 'POST', path: '/api-keys/:id/rotate', access: 'user', status: 200 },

  'auditLog.list': { method: 'GET', path: '/audit-log', access: 'user', status: 200, list: true },
} as const satisfies Record<string, Route>

export type OperationName = keyof typeof routes

/** The first part of an operation's name: `projects` of `projects.list`. */
export type Group = OperationName extends infer Name ? (Name extends `${infer G}.${string}` ? G : never) : never

/** The names of the parameters in a path. */
export type ParamsOf<Path extends string> = Path extends `${string}:${infer Rest}`
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
