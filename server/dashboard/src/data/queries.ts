import type { QueryInput, ResponseBody } from '@fairlead/server/client'
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, dashboardApi } from './client.ts'
import { activePollMs, cursorAfter, idlePollMs, pageAfter, pollUnlessRejected } from './polling.ts'

/*
 * The queries of all pages. A key is the path of the resource, so that invalidating a resource also invalidates
 * everything below it.
 */

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

export const accountUsageQuery = queryOptions({
  queryKey: ['account', 'usage'],
  queryFn: ({ signal }) => api.account.usage({ signal }),
  refetchInterval: idlePollMs,
})

/**
 * The plans and regions that the account may choose: the operator's configuration, which changes only with a restart.
 */
export const plansQuery = queryOptions({
  queryKey: ['account', 'plans'],
  queryFn: ({ signal }) => api.account.plans({ signal }),
  staleTime: 300_000,
})

/** Projects and their contents, by the words of a text. */
export const searchQuery = (text: string) =>
  queryOptions({
    queryKey: ['account', 'search', text],
    queryFn: ({ signal }) => api.account.search({ query: { text }, signal }),
    staleTime: 10_000,
  })

export const projectsQuery = queryOptions({
  queryKey: ['projects'],
  queryFn: ({ signal }) => api.projects.list({ signal }),
  refetchInterval: idlePollMs,
})

export const usageQuery = queryOptions({
  queryKey: ['projects', 'usage'],
  queryFn: ({ signal }) => api.projects.usage({ signal }),
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

export const appsQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps'],
    queryFn: ({ signal }) => api.apps.list({ params: { project_id: projectId }, signal }),
    refetchInterval: ({ state }) =>
      pollUnlessRejected(
        state,
        state.data?.apps.some(({ latest }) => latest.status === 'building') ? activePollMs : idlePollMs,
      ),
  })

export const appQuery = (projectId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', id],
    queryFn: ({ signal }) => api.apps.get({ params: { project_id: projectId, id }, signal }),
    refetchInterval: ({ state }) =>
      pollUnlessRejected(state, state.data?.latest.status === 'building' ? activePollMs : idlePollMs),
  })

export const variablesQuery = (projectId: string, appId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'variables'],
    queryFn: ({ signal }) => api.variables.list({ params: { project_id: projectId, app_id: appId }, signal }),
    refetchInterval: ({ state }) => pollUnlessRejected(state, idlePollMs),
  })

export const gitCredentialsQuery = (projectId: string, appId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'git-credentials'],
    queryFn: ({ signal }) => api.gitCredentials.get({ params: { project_id: projectId, app_id: appId }, signal }),
  })

export const volumesQuery = (projectId: string, appId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'volumes'],
    queryFn: ({ signal }) => api.volumes.list({ params: { project_id: projectId, app_id: appId }, signal }),
  })

/** The links between the apps and the databases of a project. */
export const linksQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'links'],
    queryFn: ({ signal }) => api.links.list({ params: { project_id: projectId }, signal }),
  })

/** Polled often while the number of instances changes. */
export const processesQuery = (projectId: string, appId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'processes'],
    queryFn: ({ signal }) => api.processes.list({ params: { project_id: projectId, app_id: appId }, signal }),
    refetchInterval: ({ state }) =>
      pollUnlessRejected(
        state,
        state.data?.processes.every(
          ({ instances, running }) => running.length === instances && running.every((each) => each.state === 'running'),
        ) === true
          ? idlePollMs
          : activePollMs,
      ),
  })

export type MetricsRange = ResponseBody<'metrics.get'>['range']

/** Shows the previous range until the new range has loaded. */
export const metricsQuery = (projectId: string, appId: string, range: MetricsRange) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'metrics', range],
    queryFn: ({ signal }) =>
      api.metrics.get({ params: { project_id: projectId, app_id: appId }, query: { range }, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => pollUnlessRejected(state, idlePollMs),
  })

/** The runs of an app, or of one of its schedules. */
export const runsQuery = (projectId: string, appId: string, scheduleId?: string) =>
  infiniteQueryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'runs', scheduleId],
    queryFn: ({ pageParam, signal }) =>
      api.runs.list({
        params: { project_id: projectId, app_id: appId },
        query: { ...pageAfter(pageParam), ...(scheduleId && { schedule_id: scheduleId }) },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ runs }) => cursorAfter(runs),
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ runs }) => runs.some(({ status }) => status === 'waiting' || status === 'running'))
        ? activePollMs
        : idlePollMs,
  })

export const runQuery = (projectId: string, appId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'runs', 'one', id],
    queryFn: ({ signal }) => api.runs.get({ params: { project_id: projectId, app_id: appId, id }, signal }),
    refetchInterval: ({ state }) => (state.data?.finished_at === null ? activePollMs : false),
  })

export const schedulesQuery = (projectId: string, appId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'schedules'],
    queryFn: ({ signal }) => api.schedules.list({ params: { project_id: projectId, app_id: appId }, signal }),
    refetchInterval: ({ state }) => pollUnlessRejected(state, idlePollMs),
  })

export const scheduleQuery = (projectId: string, appId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'schedules', id],
    queryFn: ({ signal }) => api.schedules.get({ params: { project_id: projectId, app_id: appId, id }, signal }),
    refetchInterval: ({ state }) => pollUnlessRejected(state, idlePollMs),
  })

/** The releases of an app that match a filter; an empty text matches all. */
export type ReleaseFilter = Pick<QueryInput<'releases.list'>, 'status' | 'branch' | 'search'>

export const appReleasesQuery = (projectId: string, appId: string, { status, branch, search }: ReleaseFilter) =>
  infiniteQueryOptions({
    queryKey: ['projects', projectId, 'apps', appId, 'releases', status, branch, search],
    queryFn: ({ pageParam, signal }) =>
      api.releases.list({
        params: { project_id: projectId, app_id: appId },
        query: {
          ...pageAfter(pageParam),
          ...(status && { status }),
          ...(branch && { branch }),
          ...(search && { search }),
        },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ releases }) => cursorAfter(releases),
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ releases }) => releases.some(({ status }) => status === 'building'))
        ? activePollMs
        : idlePollMs,
  })

/** The newest releases of all apps of a project. */
export const releasesQuery = (projectId: string) =>
  infiniteQueryOptions({
    queryKey: ['projects', projectId, 'releases'],
    queryFn: ({ pageParam, signal }) =>
      api.activity.list({ params: { project_id: projectId }, query: pageAfter(pageParam), signal }),
    initialPageParam: '',
    getNextPageParam: ({ releases }) => cursorAfter(releases),
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ releases }) => releases.some(({ status }) => status === 'building'))
        ? activePollMs
        : idlePollMs,
  })

export const outcomesQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'outcomes'],
    queryFn: ({ signal }) => api.activity.outcomes({ params: { project_id: projectId }, signal }),
    refetchInterval: idlePollMs,
  })

export const deploymentQuery = (projectId: string, id: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'deployments', id],
    queryFn: ({ signal }) => api.deployments.get({ params: { project_id: projectId, id }, signal }),
    refetchInterval: ({ state }) => pollUnlessRejected(state, state.data?.status === 'building' ? 1_000 : idlePollMs),
  })

export const trustQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'trust'],
    queryFn: ({ signal }) => api.trust.list({ params: { project_id: projectId }, signal }),
  })

export const registriesQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'registries'],
    queryFn: ({ signal }) => api.registries.list({ params: { project_id: projectId }, signal }),
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
  infiniteQueryOptions({
    queryKey: ['webhooks', webhookId, 'deliveries', filter ?? 'all'],
    queryFn: ({ pageParam, signal }) =>
      api.deliveries.list({
        params: { webhook_id: webhookId },
        query: { ...pageAfter(pageParam), ...(filter && { status: filter }) },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ deliveries }) => cursorAfter(deliveries),
    // The pages are read one after the other, so many pages are read less often.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 1) > 2 ? idlePollMs : activePollMs),
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
  queryFn: ({ pageParam, signal }) => api.auditLog.list({ query: pageAfter(pageParam), signal }),
  initialPageParam: '',
  getNextPageParam: ({ entries }) => cursorAfter(entries),
})
