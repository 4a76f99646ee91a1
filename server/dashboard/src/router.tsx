import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { createElement } from 'react'
import { loadModule } from './data/load-module.ts'
import { Layout } from './shell/layout.tsx'
import { pendingPage } from './ui/page/pending-page.tsx'
import { Loading } from './ui/page/states.tsx'

/** Loads a page when it is first opened. */
const page = <Module extends Record<string, unknown>, Name extends keyof Module>(
  load: () => Promise<Module>,
  name: Name,
) => lazyRouteComponent(() => loadModule(load), name)

const root = createRootRoute({
  notFoundComponent: page(() => import('./pages/not-found.tsx'), 'NotFound'),
})

const redirectTo = (path: '/projects' | '/settings/api-keys') => () => {
  throw redirect({ to: path })
}

const home = createRoute({ getParentRoute: () => root, path: '/', beforeLoad: redirectTo('/projects') })

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: (search): { next?: string } => (typeof search['next'] === 'string' ? { next: search['next'] } : {}),
  component: page(() => import('./pages/sign-in/sign-in.tsx'), 'SignIn'),
})

const setup = createRoute({
  getParentRoute: () => root,
  path: '/setup',
  component: page(() => import('./pages/sign-in/setup.tsx'), 'Setup'),
})

const device = createRoute({
  getParentRoute: () => root,
  path: '/device',
  component: page(() => import('./pages/sign-in/device.tsx'), 'DeviceLogin'),
})

/** Pages for signed-in users share a layout. */
const layout = createRoute({ getParentRoute: () => root, id: 'layout', component: Layout })

const getStarted = createRoute({
  getParentRoute: () => layout,
  path: '/get-started',
  pendingComponent: pendingPage('Get started'),
  component: page(() => import('./pages/get-started/get-started.tsx'), 'GetStarted'),
})

const projects = createRoute({
  getParentRoute: () => layout,
  path: '/projects',
  pendingComponent: pendingPage('Projects'),
  component: page(() => import('./pages/projects/projects.tsx'), 'Projects'),
})

const project = createRoute({
  getParentRoute: () => layout,
  path: '/projects/$projectId',
  pendingComponent: pendingPage('Project'),
  component: page(() => import('./pages/project/project.tsx'), 'Project'),
})
const overview = createRoute({
  getParentRoute: () => project,
  path: '/',
  component: page(() => import('./pages/project/overview/overview.tsx'), 'Overview'),
})
const deployments = createRoute({
  getParentRoute: () => project,
  path: '/deployments',
  component: page(() => import('./pages/project/deployments/deployments.tsx'), 'Deployments'),
})
const databases = createRoute({
  getParentRoute: () => project,
  path: '/databases',
  component: page(() => import('./pages/project/databases/databases.tsx'), 'Databases'),
})
const storage = createRoute({
  getParentRoute: () => project,
  path: '/storage',
  component: page(() => import('./pages/project/storage/storage.tsx'), 'Storage'),
})
const trust = createRoute({
  getParentRoute: () => project,
  path: '/trust',
  component: page(() => import('./pages/project/trust/trust.tsx'), 'Trust'),
})
const projectSettings = createRoute({
  getParentRoute: () => project,
  path: '/settings',
  component: page(() => import('./pages/project/settings.tsx'), 'ProjectSettings'),
})

const app = createRoute({
  getParentRoute: () => layout,
  path: '/projects/$projectId/apps/$appId',
  pendingComponent: pendingPage('App'),
  component: page(() => import('./pages/project/app/app.tsx'), 'App'),
})
const appReleases = createRoute({
  getParentRoute: () => app,
  path: '/',
  component: page(() => import('./pages/project/app/releases.tsx'), 'Releases'),
})
const appOverview = createRoute({
  getParentRoute: () => app,
  path: '/overview',
  component: page(() => import('./pages/project/app/overview.tsx'), 'AppOverview'),
})
const appLogs = createRoute({
  getParentRoute: () => app,
  path: '/logs',
  component: page(() => import('./pages/project/app/logs.tsx'), 'Logs'),
})
const appVariables = createRoute({
  getParentRoute: () => app,
  path: '/variables',
  component: page(() => import('./pages/project/app/variables/variables.tsx'), 'Variables'),
})

const appProcesses = createRoute({
  getParentRoute: () => app,
  path: '/processes',
  component: page(() => import('./pages/project/app/processes.tsx'), 'Processes'),
})
const appDomains = createRoute({
  getParentRoute: () => app,
  path: '/domains',
  component: page(() => import('./pages/project/app/domains/domains.tsx'), 'Domains'),
})
const appDomain = createRoute({
  getParentRoute: () => app,
  path: '/domains/$domainId',
  component: page(() => import('./pages/project/app/domains/domain.tsx'), 'Domain'),
})
const appSettings = createRoute({
  getParentRoute: () => app,
  path: '/settings',
  component: page(() => import('./pages/project/app/settings/settings.tsx'), 'Settings'),
})
const appMetrics = createRoute({
  getParentRoute: () => app,
  path: '/metrics',
  validateSearch: ({ range }): { range?: '24h' | '7d' } => (range === '24h' || range === '7d' ? { range } : {}),
  component: page(() => import('./pages/project/app/metrics.tsx'), 'Metrics'),
})
const appSchedules = createRoute({
  getParentRoute: () => app,
  path: '/schedules',
  component: page(() => import('./pages/project/app/schedules/schedules.tsx'), 'Schedules'),
})
const appSchedule = createRoute({
  getParentRoute: () => app,
  path: '/schedules/$scheduleId',
  component: page(() => import('./pages/project/app/schedules/schedule.tsx'), 'Schedule'),
})
const appRun = createRoute({
  getParentRoute: () => app,
  path: '/run',
  component: page(() => import('./pages/project/app/runs/run.tsx'), 'Run'),
})
const deployment = createRoute({
  getParentRoute: () => layout,
  path: '/projects/$projectId/deployments/$deploymentId',
  pendingComponent: pendingPage('Deployment'),
  component: page(() => import('./pages/project/deployments/deployment.tsx'), 'Deployment'),
})
const database = createRoute({
  getParentRoute: () => layout,
  path: '/projects/$projectId/databases/$databaseId',
  pendingComponent: pendingPage('Database'),
  component: page(() => import('./pages/project/databases/database.tsx'), 'Database'),
})

const webhooks = createRoute({
  getParentRoute: () => layout,
  path: '/webhooks',
  pendingComponent: pendingPage('Webhooks'),
  component: page(() => import('./pages/webhooks/webhooks.tsx'), 'Webhooks'),
})
const webhook = createRoute({
  getParentRoute: () => layout,
  path: '/webhooks/$webhookId',
  pendingComponent: pendingPage('Webhook'),
  component: page(() => import('./pages/webhooks/webhook.tsx'), 'Webhook'),
})

const settings = createRoute({
  getParentRoute: () => layout,
  path: '/settings',
  pendingComponent: pendingPage('Settings'),
  component: page(() => import('./pages/settings/settings.tsx'), 'Settings'),
})
const settingsHome = createRoute({
  getParentRoute: () => settings,
  path: '/',
  beforeLoad: redirectTo('/settings/api-keys'),
})
const apiKeys = createRoute({
  getParentRoute: () => settings,
  path: '/api-keys',
  component: page(() => import('./pages/settings/api-keys.tsx'), 'ApiKeys'),
})
const certificates = createRoute({
  getParentRoute: () => settings,
  path: '/certificates',
  component: page(() => import('./pages/settings/certificates/certificates.tsx'), 'Certificates'),
})
const sessions = createRoute({
  getParentRoute: () => settings,
  path: '/sessions',
  component: page(() => import('./pages/settings/sessions.tsx'), 'Sessions'),
})
const account = createRoute({
  getParentRoute: () => settings,
  path: '/account',
  component: page(() => import('./pages/settings/account.tsx'), 'Account'),
})
const auditLog = createRoute({
  getParentRoute: () => settings,
  path: '/audit-log',
  component: page(() => import('./pages/settings/audit-log.tsx'), 'AuditLog'),
})

const routeTree = root.addChildren([
  home,
  signIn,
  setup,
  device,
  layout.addChildren([
    getStarted,
    projects,
    project.addChildren([overview, deployments, databases, storage, trust, projectSettings]),
    app.addChildren([
      appReleases,
      appOverview,
      appLogs,
      appMetrics,
      appVariables,
      appDomains,
      appDomain,
      appProcesses,
      appSchedules,
      appSchedule,
      appRun,
      appSettings,
    ]),
    deployment,
    database,
    webhooks,
    webhook,
    settings.addChildren([settingsHome, apiKeys, certificates, sessions, account, auditLog]),
  ]),
])

export function createAppRouter() {
  return createRouter({
    routeTree,
    defaultPreload: 'intent',
    scrollRestoration: true,
    // A text that was typed for one project or app must not appear on the page of another one, or be saved there.
    defaultRemountDeps: ({ params }) => params,
    // Nested pages; a page that was loaded before is shown at once.
    defaultPendingComponent: () => createElement(Loading, { label: 'the page' }),
    defaultPendingMinMs: 0,
  })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>
  }
}
