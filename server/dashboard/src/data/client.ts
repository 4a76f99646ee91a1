import { ApiError, createClient } from '@fairlead/server/client'
import { createDashboardClient } from '@fairlead/server/dashboard-client'
import { QueryClient } from '@tanstack/react-query'
import { noteLimit, rateLimitWaitMs } from './rate-limit.ts'
import { answers, isReachable, noteUnreachable, onReachabilityChange } from './reachability.ts'
import { secretHeader, sessionSecret } from './session.ts'

const baseUrl = new URL('/dashboard/api', location.href).href

/** Adds the second secret of the session. It is read for each request, because another tab may have signed in. */
const fetchAsUser: typeof fetch = async (target, init) => {
  const headers = new Headers(init?.headers)
  const secret = sessionSecret()
  if (secret !== '') headers.set(secretHeader, secret)
  const response = await fetch(target, { ...init, headers }).catch((error: unknown) => {
    if (init?.signal?.aborted !== true) noteUnreachable()
    throw error
  })
  noteLimit(response)
  return response
}

/**
 * The API for signed-in users; the browser's cookie and the page's secret authenticate. The query client makes the
 * retries.
 */
export const api = createClient({ baseUrl, retries: 1, fetch: fetchAsUser })

/**
 * Repeats a request once when it got no answer but the server is reachable: browsers end requests when a network
 * changes.
 */
const fetchAgain: typeof fetch = (target, init) =>
  fetchAsUser(target, init).catch(async (error: unknown) => {
    if (init?.signal?.aborted === true || !(await answers())) throw error
    return fetchAsUser(target, init)
  })

/** Setup, sign-in, sign-out, password and sessions. */
export const dashboardApi = createDashboardClient({ baseUrl, fetch: fetchAgain })

/** True for a 4xx response: repeating the request would give the same answer. */
export const isClientError = (error: unknown): boolean => error instanceof ApiError && error.status < 500

/**
 * Creates the cache of server responses. Requests are repeated unless the server answered 4xx; after a refusal by the
 * account's limit, when the limit ends; without an answer, when the server can be reached again.
 */
export function createQueryClient(onSignedOut: () => void): QueryClient {
  const queryClient = new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        retry: (failures, error) =>
          rateLimitWaitMs(error) !== undefined || (failures < 2 && error instanceof ApiError && !isClientError(error)),
        retryDelay: (failures, error) => rateLimitWaitMs(error) ?? Math.min(1_000 * 2 ** failures, 30_000),
      },
    },
  })
  const checkSession = (error: unknown) => {
    if (error instanceof ApiError && error.code === 'unauthorized') onSignedOut()
  }
  // Only new errors: a query keeps its last error while it is read again after a sign-in.
  queryClient.getQueryCache().subscribe((event) => {
    if (event.type === 'updated' && event.action.type === 'error') checkSession(event.action.error)
  })
  onReachabilityChange(() => {
    if (isReachable()) void queryClient.invalidateQueries()
  })
  queryClient.getMutationCache().subscribe((event) => {
    if (event.type === 'updated' && event.action.type === 'error') checkSession(event.action.error)
  })
  return queryClient
}
