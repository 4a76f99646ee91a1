import { ApiError, createClient } from '@fairlead/server/client'
import { createDashboardClient } from '@fairlead/server/dashboard-client'
import { QueryClient } from '@tanstack/react-query'

const baseUrl = new URL('/dashboard/api', location.href).href

/** The API as mounted for signed-in users; the browser's cookie authenticates. The query client adds its own retries. */
export const api = createClient({ baseUrl, retries: 1 })

/** Setup, sign-in, sign-out, password and sessions. */
export const dashboardApi = createDashboardClient({ baseUrl })

/** True for a 4xx response: repeating the request would give the same answer. */
export const isClientError = (error: unknown): boolean => error instanceof ApiError && error.status < 500

/** Creates the cache of server responses. Requests are retried unless the server answered 4xx. */
export function createQueryClient(onSignedOut: () => void): QueryClient {
  const queryClient = new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        retry: (failures, error) => failures < 2 && !isClientError(error),
      },
    },
  })
  const checkSession = (error: unknown) => {
    if (error instanceof ApiError && error.code === 'unauthorized') onSignedOut()
  }
  queryClient.getQueryCache().subscribe(({ query }) => checkSession(query.state.error))
  queryClient.getMutationCache().subscribe(({ mutation }) => checkSession(mutation?.state.error))
  return queryClient
}
