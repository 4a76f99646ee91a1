import { useQuery } from '@tanstack/react-query'
import { Outlet, useParams } from '@tanstack/react-router'
import { isClientError } from '../../../data/client.ts'
import { appQuery } from '../../../data/queries.ts'
import { buttonClass } from '../../../ui/controls/button.tsx'
import { Page } from '../../../ui/page/page.tsx'
import { QueryError } from '../../../ui/page/states.tsx'
import { Tabs } from '../../../ui/page/tabs.tsx'
import { AppStatus } from '../app-status.tsx'
import { Breadcrumbs } from '../breadcrumbs.tsx'

/** The layout of an app's pages. */
export function App() {
  const params = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const app = useQuery(appQuery(params.projectId, params.appId))
  return (
    <Page
      title={app.data?.name ?? 'App'}
      lead={
        <>
          <Breadcrumbs
            projectId={params.projectId}
            list={{ label: 'Apps', to: '/projects/$projectId' }}
            resourceId={params.appId}
          />
          {app.data !== undefined && (
            <div className="mt-1">
              <AppStatus projectId={params.projectId} app={app.data} />
            </div>
          )}
        </>
      }
      actions={
        app.data?.serving != null && (
          <a href={app.data.url} target="_blank" rel="noreferrer" className={buttonClass({ variant: 'primary' })}>
            Open app
          </a>
        )
      }
    >
      <QueryError error={app.error} retry={() => void app.refetch()} />
      {/* The pages below would only repeat the error of an app that cannot be loaded. */}
      {app.isLoadingError && isClientError(app.error) ? null : (
        <>
          <Tabs
            label="App"
            tabs={[
              { to: '/projects/$projectId/apps/$appId/overview', params, label: 'Overview' },
              { to: '/projects/$projectId/apps/$appId', params, label: 'Releases', activeOptions: { exact: true } },
              { to: '/projects/$projectId/apps/$appId/logs', params, label: 'Logs' },
              { to: '/projects/$projectId/apps/$appId/metrics', params, label: 'Metrics' },
              { to: '/projects/$projectId/apps/$appId/variables', params, label: 'Variables' },
              { to: '/projects/$projectId/apps/$appId/domains', params, label: 'Domains' },
              { to: '/projects/$projectId/apps/$appId/processes', params, label: 'Processes' },
              { to: '/projects/$projectId/apps/$appId/schedules', params, label: 'Schedules' },
              { to: '/projects/$projectId/apps/$appId/run', params, label: 'Run' },
              { to: '/projects/$projectId/apps/$appId/settings', params, label: 'Settings' },
            ]}
          />
          <Outlet />
        </>
      )}
    </Page>
  )
}
