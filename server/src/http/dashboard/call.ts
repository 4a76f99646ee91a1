import type { DashboardBodyOutput, DashboardResponse } from '../../contract/dashboard-operations.ts'
import type { DashboardParam, DashboardRouteName, dashboardRoutes } from '../../contract/dashboard-routes.ts'
import type { Principal } from '../principal.ts'
import type { CountRequest } from '../rate-limit.ts'

/** The secrets that a request brings: the values of its session cookies, and that of the header `X-Fairlead-Session`. */
export interface SessionTokens {
  readonly cookies: readonly string[]
  /** Empty when there is none. */
  readonly secret: string
}

/** A user's session, found by its cookie and its second secret. */
export interface SignedIn {
  readonly sessionId: string
  readonly principal: Principal
}

/** The input of a handler of the dashboard's own routes. */
export interface DashboardCall<Name extends DashboardRouteName> {
  readonly signedIn: (typeof dashboardRoutes)[Name]['access'] extends 'user' ? SignedIn : undefined
  /** The id of the session that the browser has, if it has one. */
  readonly previousSession: string | undefined
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
  /** Resolves to the session to which a cookie and the second secret belong, or to `undefined`. */
  readonly authenticate: (tokens: SessionTokens) => Promise<SignedIn | undefined>
  /** Counts a request against the limit of the account's sessions. */
  readonly countRequest: CountRequest
  readonly handlers: DashboardHandlers
}
