import { ApiError, createClient } from '@fairlead/server/client'
import { createDashboardClient } from '@fairlead/server/dashboard-client'
import { QueryClient } from '@tanstack/react-query'

const baseUrl = new URL('/dashboard/api', location.href).href

/** The API as signed-in users see it; the browser's cookie says who asks. Reads are repeated by the query cache. */
export const api = createClient({ baseUrl, retries: 1 })

/** Setup, sign-in, sign-out, password and sessions. */
export const door = createDashboardClient({ baseUrl })

/** An error of the caller: to ask again gives the same answer. */
export const isRefusal = (error: unknown): boolean => error instanceof ApiError && error.status < 500

/** What the server has said lately. Errors of the caller are final; an answer that is missing is asked for again. */
export function createQueries(onSignedOut: () => void): QueryClient {
  const queries = new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        retry: (failures, error) => failures < 2 && !isRefusal(error),
      },
    },
  })
  const watch = (error: unknown) => {
    if (error instanceof ApiError && error.code === 'unauthorized') onSignedOut()
  }
  queries.getQueryCache().subscribe(({ query }) => watch(query.state.error))
  queries.getMutationCache().subscribe(({ mutation }) => watch(mutation?.state.error))
  return queries
}
