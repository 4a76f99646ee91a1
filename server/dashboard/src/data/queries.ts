import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, dashboardApi, isClientError } from './client.ts'

/*
 * The queries of all pages. A key is the path of the resource, so that invalidating a resource also invalidates
 * everything below it.
 */

/** Polling intervals: while a resource is changing, and otherwise. */
const activePollMs = 2_000
const idlePollMs = 10_000
const pageSize = 100

/** Stops polling after a 4xx response without data, or the page would flicker between the error and loading. */
const pollUnlessRejected = (state: { readonly data: unknown; readonly error: unknown }, everyMs: number) =>
  state.data === undefined && isClientError(state.error) ? false : everyMs

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => dashboardApi.session.get({ signal }),
  staleTime: 60_000,
})

export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: ({ signal }) => dashboardApi.sessions.list({ signal }),
})

export const accountQuery = queryOptions({
  queryKey: ['account'],
  queryFn: ({ signal }) => api.account.get({ signal }),
  refetchInterval: idlePollMs,
})

export const projectsQuery = queryOptions({
  queryKey: ['projects'],
  queryFn: ({ signal }) => api.projects.list({ signal }),
  refetchInterval: idlePollMs,
})

export const projectQuery = (id: string) =>
  queryOptions({
    queryKey: ['projects', id],
    queryFn: ({ signal }) => api.projects.get({ params: { project_id: id }, signal }),
    refetchInterval: ({ state }) => pollUnlessRejected(state, idlePollMs),
  })

export const trafficQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'traffic'],
    queryFn: ({ signal }) => api.projects.traffic({ params: { project_id: projectId }, signal }),
    refetchInterval: idlePollMs,
  })

export const deploymentsQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'deployments'],
    queryFn: ({ signal }) =>
      api.deployments.list({ params: { project_id: projectId }, query: { limit: pageSize }, signal }),
    refetchInterval: ({ state }) =>
      state.data?.deployments.some(({ status }) => status === 'building') ? activePollMs : idlePollMs,
  })

export const deploymentQuery = (projectId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'deployments', id],
    queryFn: ({ signal }) => api.deployments.get({ params: { project_id: projectId, id }, signal }),
    refetchInterval: ({ state }) => pollUnlessRejected(state, state.data?.status === 'building' ? 1_000 : idlePollMs),
  })

/** A deployment's branch, commit and times. They are final once the build has ended, so polling stops then. */
export const deploymentSummaryQuery = (projectId: string, id: string) =>
  queryOptions({
    ...deploymentQuery(projectId, id),
    staleTime: ({ state }) => (state.data?.status === 'building' ? 1_000 : Number.POSITIVE_INFINITY),
    refetchInterval: ({ state }) => (state.data?.status === 'building' ? activePollMs : false),
  })

export const databasesQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'databases'],
    queryFn: ({ signal }) => api.databases.list({ params: { project_id: projectId }, signal }),
    refetchInterval: ({ state }) =>
      state.data?.databases.some(({ status }) => status === 'provisioning') ? activePollMs : idlePollMs,
  })

export const databaseQuery = (projectId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'databases', id],
    queryFn: ({ signal }) => api.databases.get({ params: { project_id: projectId, id }, signal }),
    refetchInterval: ({ state }) =>
      pollUnlessRejected(state, state.data?.status === 'provisioning' ? activePollMs : idlePollMs),
  })

export const snapshotsQuery = (projectId: string, databaseId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'databases', databaseId, 'snapshots'],
    queryFn: ({ signal }) => api.snapshots.list({ params: { project_id: projectId, database_id: databaseId }, signal }),
    refetchInterval: ({ state }) =>
      state.data?.snapshots.some(({ status }) => status === 'creating') ? activePollMs : idlePollMs,
  })

export const filesQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'files'],
    queryFn: ({ signal }) => api.storage.list({ params: { project_id: projectId }, signal }),
    refetchInterval: idlePollMs,
  })

export const webhooksQuery = queryOptions({
  queryKey: ['webhooks'],
  queryFn: ({ signal }) => api.webhooks.list({ signal }),
  refetchInterval: idlePollMs,
})

export const webhookQuery = (id: string) =>
  queryOptions({
    queryKey: ['webhooks', id],
    queryFn: ({ signal }) => api.webhooks.get({ params: { id }, signal }),
  })

export const deliveriesQuery = (webhookId: string, filter: 'pending' | 'succeeded' | 'failed' | undefined) =>
  queryOptions({
    queryKey: ['webhooks', webhookId, 'deliveries', filter ?? 'all'],
    queryFn: ({ signal }) =>
      api.deliveries.list({
        params: { webhook_id: webhookId },
        query: { limit: pageSize, ...(filter && { status: filter }) },
        signal,
      }),
    refetchInterval: activePollMs,
  })

export const deliveryQuery = (webhookId: string, id: string) =>
  queryOptions({
    queryKey: ['webhooks', webhookId, 'deliveries', 'one', id],
    queryFn: ({ signal }) => api.deliveries.get({ params: { webhook_id: webhookId, id }, signal }),
    refetchInterval: ({ state }) => (state.data?.status === 'pending' ? activePollMs : false),
  })

export const apiKeysQuery = queryOptions({
  queryKey: ['api-keys'],
  queryFn: ({ signal }) => api.apiKeys.list({ signal }),
})

export const auditLogQuery = infiniteQueryOptions({
  queryKey: ['audit-log'],
  queryFn: ({ pageParam, signal }) =>
    api.auditLog.list({ query: { limit: pageSize, ...(pageParam !== '' && { cursor: pageParam }) }, signal }),
  initialPageParam: '',
  // A page that is not full is the last. The cursor of the next page is the last id of this one.
  getNextPageParam: ({ entries }) => (entries.length < pageSize ? undefined : entries.at(-1)?.id),
})
