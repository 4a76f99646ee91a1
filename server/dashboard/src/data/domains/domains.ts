import type { ResponseBody } from '@fairlead/server/client'
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api } from '../client.ts'
import { cursorAfter, idlePollMs, pageAfter, pollUnlessRejected } from '../polling.ts'

export type Domain = ResponseBody<'domains.get'>

/** While the server checks DNS or obtains a certificate, which both take time. */
const waitingPollMs = 5_000

const isWaiting = ({ status, certificate }: Domain) => status === 'pending' || certificate?.status === 'pending'

/** Returns the app's domains. The key of a domain begins with the key of the list. */
export const domainsQuery = (projectId: string, appId: string) =>
  infiniteQueryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'domains'],
    queryFn: ({ pageParam, signal }) =>
      api.domains.list({
        params: { project_id: projectId, app_id: appId },
        query: pageAfter(pageParam),
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ domains }) => cursorAfter(domains),
    refetchInterval: ({ state }) =>
      pollUnlessRejected(
        state,
        state.data?.pages.some(({ domains }) => domains.some(isWaiting)) ? waitingPollMs : idlePollMs,
      ),
  })

export const domainQuery = (projectId: string, appId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'domains', id],
    queryFn: ({ signal }) => api.domains.get({ params: { project_id: projectId, app_id: appId, id }, signal }),
    refetchInterval: ({ state }) =>
      pollUnlessRejected(state, state.data !== undefined && isWaiting(state.data) ? waitingPollMs : idlePollMs),
  })

/** True for a name such as `*.example.com`. */
export const isWildcard = ({ name }: Pick<Domain, 'name'>): boolean => name.startsWith('*.')

/**
 * Returns what visitors of a domain get, in words.
 *
 * @param primary the primary domain of its app; `null` when there is none, `undefined` when it is not loaded
 */
export function textOfVisitors(domain: Domain, primary: Domain | null | undefined): string {
  if (domain.status === 'pending') return 'nothing yet'
  if (domain.primary) return 'the app (primary)'
  if (!domain.redirect) return 'the app'
  if (primary === null) return 'a redirect, once there is a primary'
  return primary === undefined ? 'a redirect to the primary' : `a redirect to ${primary.unicode_name}`
}
