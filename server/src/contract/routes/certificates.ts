import type { Route } from './route.ts'

/** The routes of certificates, a part of `contract/routes.ts`. */
export const certificateRoutes = {
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
} as const satisfies Record<string, Route>
