import type { ParamsOf, Route } from './routes.ts'

/**
 * The dashboard's own routes for setup, sign-in, password and sessions, mounted under `/dashboard/api` beside the
 * operations of /v1. Plain data without zod, like `routes.ts`. The schemas are in `resources/session.ts`.
 */
export interface DashboardRoute extends Pick<Route, 'method' | 'path' | 'status'> {
  /** `open` to everybody, or `user` for signed-in users only. */
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

/** The names of the path parameters of a route. */
export type DashboardParam<Name extends DashboardRouteName> = ParamsOf<(typeof dashboardRoutes)[Name]['path']>
