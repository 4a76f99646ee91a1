import { type ClientOptions, createMethods } from './client-requests.ts'
import type { DashboardBodyInput, DashboardResponse } from './dashboard.ts'
import { type DashboardParam, type DashboardRouteName, dashboardRoutes, type Route } from './routes.ts'

export type { DashboardResponse } from './dashboard.ts'
export { channels, type RunEnd, type RunRequest, readMessage, runProtocol } from './run-protocol.ts'

type Part<Name extends string, Value> = [Value] extends [never | undefined]
  ? { readonly [P in Name]?: never }
  : { readonly [P in Name]: Value }

type Input<Name extends DashboardRouteName> = Part<'body', DashboardBodyInput<Name>> &
  Part<
    'params',
    [DashboardParam<Name>] extends [never] ? undefined : Readonly<Record<DashboardParam<Name>, string>>
  > & { readonly signal?: AbortSignal }

type Given<Name extends DashboardRouteName> =
  Record<never, never> extends Input<Name> ? [input?: Input<Name>] : [input: Input<Name>]

type Split<Name extends DashboardRouteName> = Name extends `${infer Group}.${infer Verb}` ? [Group, Verb] : never

/** `client.<group>.<verb>({ params, body, signal })` for setup, sign-in, sign-out, password and sessions. */
export type DashboardClient = {
  readonly [Group in Split<DashboardRouteName>[0]]: {
    readonly [Name in Extract<DashboardRouteName, `${Group}.${string}`> as Split<Name>[1]]: (
      ...given: Given<Name>
    ) => Promise<DashboardResponse<Name>>
  }
}

/** Creates a typed client of the dashboard's own routes. `baseUrl` is `/dashboard/api`. It does not retry. */
export function createDashboardClient(options: Omit<ClientOptions, 'apiKey' | 'retries'>): DashboardClient {
  const table: Readonly<Record<string, Omit<Route, 'access'>>> = dashboardRoutes
  return createMethods(table, { ...options, retries: 0 }) as unknown as DashboardClient
}
