/**
 * A route of /v1: plain data without zod, so that the typed client stays small. The file of its resource has the
 * schemas, under the same name.
 */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Relative to the base address, in the specification's notation (`/projects/:project_id`). */
  readonly path: `/${string}`
  readonly access: Access
  /** The success status: 200 for reads and actions, 201 for creations, 204 for deletions. */
  readonly status: 200 | 201 | 204
  /** Accepts `limit` and `cursor`; a `Link` header leads to the next page. */
  readonly list?: true
  readonly text?: true
  /** The media type of the stream that replaces a JSON body. A stream takes too long for a transaction. */
  readonly upload?: 'multipart/form-data' | 'application/x-git-bundle'
  /**
   * True when the operation waits for other machines, which takes too long for a transaction. It makes its changes in
   * separate transactions.
   */
  readonly waits?: true
  /** Refuses keys that are bound to projects. */
  readonly wholeAccount?: true
}

/** The resources with read and write permissions. */
export const scopeResources = ['projects', 'deployments', 'databases', 'storage', 'webhooks'] as const
/**
 * `runs:write` is separate, because a command sees its app's secret variables, which no other permission shows.
 * `deployments:read` includes runs.
 */
export type Scope = `${(typeof scopeResources)[number]}:${'read' | 'write'}` | 'runs:write'

export const scopes: readonly Scope[] = [
  ...scopeResources.flatMap((resource): Scope[] => [`${resource}:read`, `${resource}:write`]),
  'runs:write',
]

/** A scope of the key; `any` for every valid key; `user` for signed-in users only. */
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

  'apps.list': {
    method: 'GET',
    path: '/projects/:project_id/apps',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'apps.get': { method: 'GET', path: '/projects/:project_id/apps/:id', access: 'deployments:read', status: 200 },
  'apps.update': { method: 'PATCH', path: '/projects/:project_id/apps/:id', access: 'deployments:write', status: 200 },
  'apps.delete': { method: 'DELETE', path: '/projects/:project_id/apps/:id', access: 'deployments:write', status: 204 },
  'apps.apply': {
    method: 'POST',
    path: '/projects/:project_id/apps/:id/apply',
    access: 'deployments:write',
    status: 200,
  },

  'variables.list': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/variables',
    access: 'deployments:read',
    status: 200,
  },
  'variables.update': {
    method: 'PATCH',
    path: '/projects/:project_id/apps/:app_id/variables',
    access: 'deployments:write',
    status: 200,
  },
  'variables.copy': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/variables/copy',
    access: 'deployments:write',
    status: 200,
  },
  'variables.adopt': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/variables/adopt',
    access: 'deployments:write',
    status: 200,
  },

  'links.list': { method: 'GET', path: '/projects/:project_id/links', access: 'deployments:read', status: 200 },
  'links.create': { method: 'POST', path: '/projects/:project_id/links', access: 'deployments:write', status: 201 },
  'links.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/links/:id',
    access: 'deployments:write',
    status: 204,
  },

  'gitCredentials.get': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/git-credentials',
    access: 'deployments:read',
    status: 200,
  },
  'gitCredentials.set': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/git-credentials',
    access: 'deployments:write',
    status: 200,
  },
  'gitCredentials.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/apps/:app_id/git-credentials',
    access: 'deployments:write',
    status: 204,
  },
  'gitCredentials.forgetHosts': {
    method: 'DELETE',
    path: '/projects/:project_id/apps/:app_id/git-credentials/known-hosts',
    access: 'deployments:write',
    status: 204,
  },

  'processes.list': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/processes',
    access: 'deployments:read',
    status: 200,
  },
  'processes.update': {
    method: 'PATCH',
    path: '/projects/:project_id/apps/:app_id/processes',
    access: 'deployments:write',
    status: 200,
  },

  'volumes.list': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/volumes',
    access: 'deployments:read',
    status: 200,
  },
  'volumes.update': {
    method: 'PATCH',
    path: '/projects/:project_id/apps/:app_id/volumes',
    access: 'deployments:write',
    status: 200,
  },

  'metrics.get': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/metrics',
    access: 'deployments:read',
    status: 200,
  },

  'releases.list': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/releases',
    access: 'deployments:read',
    status: 200,
    list: true,
  },

  'domains.list': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/domains',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'domains.create': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/domains',
    access: 'deployments:write',
    status: 201,
  },
  'domains.get': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/domains/:id',
    access: 'deployments:read',
    status: 200,
  },
  'domains.update': {
    method: 'PATCH',
    path: '/projects/:project_id/apps/:app_id/domains/:id',
    access: 'deployments:write',
    status: 200,
  },
  'domains.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/apps/:app_id/domains/:id',
    access: 'deployments:write',
    status: 204,
  },
  'domains.check': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/domains/:id/check',
    access: 'deployments:write',
    status: 200,
    waits: true,
  },

  'certificates.list': {
    method: 'GET',
    path: '/certificates',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'certificates.problems': {
    method: 'GET',
    path: '/projects/:project_id/certificate-problems',
    access: 'deployments:read',
    status: 200,
  },
  'certificates.get': { method: 'GET', path: '/certificates/:id', access: 'deployments:read', status: 200 },
  'certificates.create': { method: 'POST', path: '/certificates', access: 'deployments:write', status: 201 },
  'certificates.renew': {
    method: 'POST',
    path: '/certificates/:id/renew',
    access: 'deployments:write',
    status: 200,
  },
  'certificates.revoke': {
    method: 'POST',
    path: '/certificates/:id/revoke',
    access: 'deployments:write',
    status: 200,
  },
  'certificates.delete': {
    method: 'DELETE',
    path: '/certificates/:id',
    access: 'deployments:write',
    status: 204,
  },

  'runs.list': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/runs',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'runs.create': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/runs',
    access: 'runs:write',
    status: 201,
  },
  'runs.get': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/runs/:id',
    access: 'deployments:read',
    status: 200,
  },

  'runs.cancel': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/runs/:id/cancel',
    access: 'runs:write',
    status: 200,
  },

  'schedules.list': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/schedules',
    access: 'deployments:read',
    status: 200,
    list: true,
  },
  'schedules.create': {
    method: 'POST',
    path: '/projects/:project_id/apps/:app_id/schedules',
    access: 'runs:write',
    status: 201,
  },
  'schedules.get': {
    method: 'GET',
    path: '/projects/:project_id/apps/:app_id/schedules/:id',
    access: 'deployments:read',
    status: 200,
  },
  'schedules.update': {
    method: 'PATCH',
    path: '/projects/:project_id/apps/:app_id/schedules/:id',
    access: 'runs:write',
    status: 200,
  },
  'schedules.delete': {
    method: 'DELETE',
    path: '/projects/:project_id/apps/:app_id/schedules/:id',
    access: 'runs:write',
    status: 204,
  },

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

/** The first part of an operation name: `projects` of `projects.list`. */
export type Group = OperationName extends infer Name ? (Name extends `${infer G}.${string}` ? G : never) : never

type ParamsOf<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Name | ParamsOf<Tail>
    : Rest
  : never

export type PathParam<Name extends OperationName> = ParamsOf<(typeof routes)[Name]['path']>

export type ListName = {
  [Name in OperationName]: (typeof routes)[Name] extends { list: true } ? Name : never
}[OperationName]

/**
 * The dashboard's routes under `/dashboard/api`, next to the operations of /v1. Plain data like the routes above;
 * `dashboard.ts` has the schemas.
 */
export interface DashboardRoute extends Pick<Route, 'method' | 'path' | 'status'> {
  /** `open` to everybody, or `user` for signed-in users. */
  readonly access: 'open' | 'user'
}

export const dashboardRoutes = {
  'setup.check': { method: 'POST', path: '/setup/check', access: 'open', status: 200 },
  'setup.complete': { method: 'POST', path: '/setup', access: 'open', status: 200 },
  'session.create': { method: 'POST', path: '/session', access: 'open', status: 200 },
  'session.get': { method: 'GET', path: '/session', access: 'user', status: 200 },
  'session.delete': { method: 'DELETE', path: '/session', access: 'user', status: 204 },
  'password.change': { method: 'POST', path: '/password', access: 'user', status: 204 },
  'sessions.list': { method: 'GET', path: '/sessions', access: 'user', status: 200 },
  'device.check': { method: 'POST', path: '/device/check', access: 'user', status: 200 },
  'device.approve': { method: 'POST', path: '/device/approve', access: 'user', status: 204 },
  'device.deny': { method: 'POST', path: '/device/deny', access: 'user', status: 204 },
  'sessions.revoke': { method: 'DELETE', path: '/sessions/:id', access: 'user', status: 204 },
} as const satisfies Record<string, DashboardRoute>

export type DashboardRouteName = keyof typeof dashboardRoutes

export type DashboardParam<Name extends DashboardRouteName> = ParamsOf<(typeof dashboardRoutes)[Name]['path']>
