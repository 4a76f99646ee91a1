import type { Route } from './route.ts'

/** The routes of commands of apps and their schedules, a part of `contract/routes.ts`. */
export const runRoutes = {
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
} as const satisfies Record<string, Route>
