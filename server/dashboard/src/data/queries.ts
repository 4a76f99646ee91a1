import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, door, isRefusal } from './client.ts'

/*
 * Every question that pages ask, by one key each: the path of the thing, so that what is below it can be asked anew
 * together with it.
 */

/** How often things are asked for that change by themselves, in milliseconds. */
const soon = 2_000
const later = 10_000
const pageSize = 100

/** Not again what was refused and never there: a page would change from the refusal to loading and back each time. */
const unlessRefused = (state: { readonly data: unknown; readonly error: unknown }, everyMs: number) =>
  state.data === undefined && isRefusal(state.error) ? false : everyMs

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => door.session.get({ signal }),
  staleTime: 60_000,
})

export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: ({ signal }) => door.sessions.list({ signal }),
})

export const accountQuery = queryOptions({
  queryKey: ['account'],
  queryFn: ({ signal }) => api.account.get({ signal }),
  refetchInterval: later,
})

export const projectsQuery = queryOptions({
  queryKey: ['projects'],
  queryFn: ({ signal }) => api.projects.list({ signal }),
  refetchInterval: later,
})

export const projectQuery = (id: string) =>
  queryOptions({
    queryKey: ['projects', id],
    queryFn: ({ signal }) => api.projects.get({ params: { project_id: id }, signal }),
    refetchInterval: ({ state }) => unlessRefused(state, later),
  })

export const trafficQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'traffic'],
    queryFn: ({ signal }) => api.projects.traffic({ params: { project_id: projectId }, signal }),
    refetchInterval: later,
  })

export const deploymentsQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'deployments'],
    queryFn: ({ signal }) =>
      api.deployments.list({ params: { project_id: projectId }, query: { limit: pageSize }, signal }),
    refetchInterval: ({ state }) =>
      state.data?.deployments.some(({ status }) => status === 'building') ? soon : later,
  })

export const deploymentQuery = (projectId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'deployments', id],
    queryFn: ({ signal }) => api.deployments.get({ params: { project_id: projectId, id }, signal }),
    refetchInterval: ({ state }) => unlessRefused(state, state.data?.status === 'building' ? 1_000 : later),
  })

/** What stays as it is once a deployment has ended: branch, commit and times. */
export const deploymentFactsQuery = (projectId: string, id: string) =>
  queryOptions({
    ...deploymentQuery(projectId, id),
    staleTime: ({ state }) => (state.data?.status === 'building' ? 1_000 : Number.POSITIVE_INFINITY),
    refetchInterval: ({ state }) => (state.data?.status === 'building' ? soon : false),
  })

export const databasesQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'databases'],
    queryFn: ({ signal }) => api.databases.list({ params: { project_id: projectId }, signal }),
    refetchInterval: ({ state }) =>
      state.data?.databases.some(({ status }) => status === 'provisioning') ? soon : later,
  })

export const databaseQuery = (projectId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'databases', id],
    queryFn: ({ signal }) => api.databases.get({ params: { project_id: projectId, id }, signal }),
    refetchInterval: ({ state }) => unlessRefused(state, state.data?.status === 'provisioning' ? soon : later),
  })

export const snapshotsQuery = (projectId: string, databaseId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'databases', databaseId, 'snapshots'],
    queryFn: ({ signal }) => api.snapshots.list({ params: { project_id: projectId, database_id: databaseId }, signal }),
    refetchInterval: ({ state }) => (state.data?.snapshots.some(({ status }) => status === 'creating') ? soon : later),
  })

export const filesQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'files'],
    queryFn: ({ signal }) => api.storage.list({ params: { project_id: projectId }, signal }),
    refetchInterval: later,
  })

export const webhooksQuery = queryOptions({
  queryKey: ['webhooks'],
  queryFn: ({ signal }) => api.webhooks.list({ signal }),
  refetchInterval: later,
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
    refetchInterval: soon,
  })

export const deliveryQuery = (webhookId: string, id: string) =>
  queryOptions({
    queryKey: ['webhooks', webhookId, 'deliveries', 'one', id],
    queryFn: ({ signal }) => api.deliveries.get({ params: { webhook_id: webhookId, id }, signal }),
    refetchInterval: ({ state }) => (state.data?.status === 'pending' ? soon : false),
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
  // A page that is not full is the last one; the id that it ends with is where the next one begins.
  getNextPageParam: ({ entries }) => (entries.length < pageSize ? undefined : entries.at(-1)?.id),
})
