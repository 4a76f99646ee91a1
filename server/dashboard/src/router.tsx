import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { Layout } from './shell/layout.tsx'

const root = createRootRoute({
  notFoundComponent: lazyRouteComponent(() => import('./pages/not-found.tsx'), 'NotFound'),
})

const redirectTo = (path: '/projects' | '/settings/api-keys') => () => {
  throw redirect({ to: path })
}

const home = createRoute({ getParentRoute: () => root, path: '/', beforeLoad: redirectTo('/projects') })

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: (search): { next?: string } => (typeof search['next'] === 'string' ? { next: search['next'] } : {}),
  component: lazyRouteComponent(() => import('./pages/sign-in/sign-in.tsx'), 'SignIn'),
})

const setup = createRoute({
  getParentRoute: () => root,
  path: '/setup',
  component: lazyRouteComponent(() => import('./pages/sign-in/setup.tsx'), 'Setup'),
})

/** Pages for signed-in users share a layout. Each page is loaded when it is first opened. */
const layout = createRoute({ getParentRoute: () => root, id: 'layout', component: Layout })

const getStarted = createRoute({
  getParentRoute: () => layout,
  path: '/get-started',
  component: lazyRouteComponent(() => import('./pages/get-started/get-started.tsx'), 'GetStarted'),
})

const projects = createRoute({
  getParentRoute: () => layout,
  path: '/projects',
  component: lazyRouteComponent(() => import('./pages/projects/projects.tsx'), 'Projects'),
})

const project = createRoute({
  getParentRoute: () => layout,
  path: '/projects/$projectId',
  component: lazyRouteComponent(() => import('./pages/project/project.tsx'), 'Project'),
})
const overview = createRoute({
  getParentRoute: () => project,
  path: '/',
  component: lazyRouteComponent(() => import('./pages/project/overview/overview.tsx'), 'Overview'),
})
const deployments = createRoute({
  getParentRoute: () => project,
  path: '/deployments',
  component: lazyRouteComponent(() => import('./pages/project/deployments/deployments.tsx'), 'Deployments'),
})
const databases = createRoute({
  getParentRoute: () => project,
  path: '/databases',
  component: lazyRouteComponent(() => import('./pages/project/databases/databases.tsx'), 'Databases'),
})
const storage = createRoute({
  getParentRoute: () => project,
  path: '/storage',
  component: lazyRouteComponent(() => import('./pages/project/storage/storage.tsx'), 'Storage'),
})
const projectSettings = createRoute({
  getParentRoute: () => project,
  path: '/settings',
  component: lazyRouteComponent(() => import('./pages/project/settings.tsx'), 'ProjectSettings'),
})

const deployment = createRoute({
  getParentRoute: () => layout,
  path: '/projects/$projectId/deployments/$deploymentId',
  component: lazyRouteComponent(() => import('./pages/project/deployments/deployment.tsx'), 'Deployment'),
})
const database = createRoute({
  getParentRoute: () => layout,
  path: '/projects/$projectId/databases/$databaseId',
  component: lazyRouteComponent(() => import('./pages/project/databases/database.tsx'), 'Database'),
})

const webhooks = createRoute({
  getParentRoute: () => layout,
  path: '/webhooks',
  component: lazyRouteComponent(() => import('./pages/webhooks/webhooks.tsx'), 'Webhooks'),
})
const webhook = createRoute({
  getParentRoute: () => layout,
  path: '/webhooks/$webhookId',
  component: lazyRouteComponent(() => import('./pages/webhooks/webhook.tsx'), 'Webhook'),
})

const settings = createRoute({
  getParentRoute: () => layout,
  path: '/settings',
  component: lazyRouteComponent(() => import('./pages/settings/settings.tsx'), 'Settings'),
})
const settingsHome = createRoute({
  getParentRoute: () => settings,
  path: '/',
  beforeLoad: redirectTo('/settings/api-keys'),
})
const apiKeys = createRoute({
  getParentRoute: () => settings,
  path: '/api-keys',
  component: lazyRouteComponent(() => import('./pages/settings/api-keys.tsx'), 'ApiKeys'),
})
const sessions = createRoute({
  getParentRoute: () => settings,
  path: '/sessions',
  component: lazyRouteComponent(() => import('./pages/settings/sessions.tsx'), 'Sessions'),
})
const account = createRoute({
  getParentRoute: () => settings,
  path: '/account',
  component: lazyRouteComponent(() => import('./pages/settings/account.tsx'), 'Account'),
})
const auditLog = createRoute({
  getParentRoute: () => settings,
  path: '/audit-log',
  component: lazyRouteComponent(() => import('./pages/settings/audit-log.tsx'), 'AuditLog'),
})

const routeTree = root.addChildren([
  home,
  signIn,
  setup,
  layout.addChildren([
    getStarted,
    projects,
    project.addChildren([overview, deployments, databases, storage, projectSettings]),
    deployment,
    database,
    webhooks,
    webhook,
    settings.addChildren([settingsHome, apiKeys, sessions, account, auditLog]),
  ]),
])

export function createAppRouter() {
  return createRouter({ routeTree, defaultPreload: 'intent', scrollRestoration: true })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>
  }
}
