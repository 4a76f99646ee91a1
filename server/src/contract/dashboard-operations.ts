import type { z } from 'zod'
import { type DashboardRoute, type DashboardRouteName, dashboardRoutes } from './dashboard-routes.ts'
import type { Declaration } from './declaration.ts'
import { dashboardDeclarations } from './resources/session.ts'

type Declared = typeof dashboardDeclarations

type PartOf<Name extends DashboardRouteName, Part extends string> =
  Declared[Name] extends Record<Part, infer Schema extends z.ZodType> ? Schema : z.ZodUndefined

/** The body that the dashboard sends. */
export type DashboardBodyInput<Name extends DashboardRouteName> = z.input<PartOf<Name, 'body'>>
/** The parsed body that the handler gets. */
export type DashboardBodyOutput<Name extends DashboardRouteName> = z.output<PartOf<Name, 'body'>>
/** The body of the answer. */
export type DashboardResponse<Name extends DashboardRouteName> = z.output<PartOf<Name, 'response'>>

export type DashboardOperation = DashboardRoute & Declaration & { readonly name: DashboardRouteName }

/** The dashboard's own operations. */
export const dashboardOperations: readonly DashboardOperation[] = (
  Object.keys(dashboardRoutes) as DashboardRouteName[]
).map((name) => ({ name, ...dashboardRoutes[name], ...dashboardDeclarations[name] }))
