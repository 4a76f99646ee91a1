import { appRoutes } from './routes/apps.ts'
import { certificateRoutes } from './routes/certificates.ts'
import { domainRoutes } from './routes/domains.ts'
import type { Route } from './routes/route.ts'
import { runRoutes } from './routes/runs.ts'

export { type Access, type Route, type Scope, scopeResources, scopes } from './routes/route.ts'

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
  'projects.usage': { method: 'GET', path: '/usage', access: 'projects:read', status: 200, list: true },
  'projects.traffic': { method: 'GET', path: '/projects/:project_id/traffic', access: 'projects:read', status: 200 },

  'trust.list': { method: 'GET', path: '/projects/:project_id/trust', access: 'user', status: 200, list: true },
  'trust.create': { method: 'POST', path: '/projects/:project_id/trust', access: 'user', status: 201 },
  'trust.delete': { method: 'DELETE', path: '/projects/:project_id/trust/:id', access: 'user', status: 204 },

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

  'logs.read': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/logs',
    access: 'deployments:read',
    status: 200,
    text: true,
  },
  'logs.follow': { method: 'GET', path: '/logs', access: 'user', status: 200, text: true },

  'activity.list': {
    method: 'GET',
    path: '/projects/:project_id/activity',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'activity.outcomes': {
    method: 'GET',
    path: '/projects/:project_id/activity/outcomes',
    access: 'deployments:read',
    status: 200,
  },

  ...appRoutes,

  ...domainRoutes,

  ...certificateRoutes,

  ...runRoutes,

  'sources.create': {
    method: 'POST',
    path: '/projects/:project_id/sources',
    access: 'deployments:write',
    status: 201,
    upload: 'application/x-git-bundle',
  },

  'registries.list': {
    method: 'GET',
    path: '/projects/:project_id/registries',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'registries.set': {
    method: 'POST',
    path: '/projects/:project_id/registries',
    access: 'deployments:write',
    status: 200,
  },
  'registries.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/registries/:id',
    access: 'deployments:write',
    status: 204,
  },

  'storage.upload': {
    method: 'POST',
    path: '/projects/:project_id/storage/upload',
    access: 'storage:write',
    status: 201,
    upload: 'multipart/form-data',
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
  'account.usage': {
    method: 'GET',
    path: '/account/usage',
    access: 'projects:read',
    status: 200,
    wholeAccount: true,
  },
  'account.plans': { method: 'GET', path: '/account/plans', access: 'projects:read', status: 200 },
  'account.search': { method: 'GET', path: '/account/search', access: 'user', status: 200 },

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
