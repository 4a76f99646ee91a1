import { index, type RouteConfig, route } from '@react-router/dev/routes'

export default [index('routes/home.tsx'), route('hello/:name', 'routes/hello.tsx')] satisfies RouteConfig
