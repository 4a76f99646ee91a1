import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { Layout } from './shell/layout.tsx'

const root = createRootRoute({
  notFoundComponent: lazyRouteComponent(() => import('./pages/not-found.tsx'), 'NotFound'),
})

/** Pages behind the sign-in share the frame; each is loaded when it is first opened. */
const frame = createRoute({ getParentRoute: () => root, id: 'frame', component: Layout })

const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/projects' })
  },
})

const projects = createRoute({
  getParentRoute: () => frame,
  path: '/projects',
  component: lazyRouteComponent(() => import('./pages/projects.tsx'), 'Projects'),
})

const routeTree = root.addChildren([home, frame.addChildren([projects])])

export function createAppRouter() {
  return createRouter({ routeTree, defaultPreload: 'intent', scrollRestoration: true })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>
  }
}
