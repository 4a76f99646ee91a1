import type { DashboardBodyOutput, DashboardResponse } from '../../contract/dashboard-operations.ts'
import type { DashboardParam, DashboardRouteName, dashboardRoutes } from '../../contract/dashboard-routes.ts'
import type { Principal } from '../principal.ts'

/** A user's session, found by its cookie. */
export interface SignedIn {
  readonly sessionId: string
  readonly principal: Principal
}

/** The input of a handler of the dashboard's own routes. */
export interface DashboardCall<Name extends DashboardRouteName> {
  readonly signedIn: (typeof dashboardRoutes)[Name]['access'] extends 'user' ? SignedIn : undefined
  /** The value of the session cookie, valid or not. */
  readonly token: string | undefined
  readonly params: Readonly<Record<DashboardParam<Name>, string>>
  readonly body: DashboardBodyOutput<Name>
  readonly request: DashboardRequest
  /** Sets the session cookie to a new token, or removes it with `null`. */
  readonly setToken: (token: string | null) => void
  /** Sets `Retry-After`, in seconds, for an answer of `rate_limit_exceeded`. */
  readonly setRetryAfter: (seconds: number) => void
}

export interface DashboardRequest {
  readonly id: string
  readonly address: string
  readonly userAgent: string | null
}

export type DashboardHandlers = {
  readonly [Name in DashboardRouteName]: (call: DashboardCall<Name>) => Promise<DashboardResponse<Name>>
}

export interface Dashboard {
  /** Resolves to the session of a cookie's token, or to `undefined`. */
  readonly authenticate: (token: string) => Promise<SignedIn | undefined>
  readonly handlers: DashboardHandlers
}
