import { ApiError, createClient } from '@fairlead/server/client'
import { QueryClient } from '@tanstack/react-query'

/** The API as signed-in users see it; the browser's cookie says who asks. Repetitions are the query cache's matter. */
export const api = createClient({ baseUrl: '/dashboard/api', retries: 1 })

/** What the server has said lately. Errors of the caller are final; an answer that is missing is asked for again. */
export function createQueries(onSignedOut: () => void): QueryClient {
  const queries = new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
        // What is being looked at stays on the screen while it is asked for again.
        placeholderData: (previous: unknown) => previous,
      },
    },
  })
  queries.getQueryCache().subscribe(({ query }) => {
    if (query.state.error instanceof ApiError && query.state.error.code === 'unauthorized') onSignedOut()
  })
  return queries
}
