import type { Route } from './route.ts'

/** The routes of the domains of apps, a part of `contract/routes.ts`. */
export const domainRoutes = {
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
} as const satisfies Record<string, Route>
