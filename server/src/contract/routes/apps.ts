import type { Route } from './route.ts'

/** The routes of apps, and of what belongs to them. */
export const appRoutes = {
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
} as const satisfies Record<string, Route>
