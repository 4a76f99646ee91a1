import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useParams } from '@tanstack/react-router'
import { isClientError } from '../../data/client.ts'
import { projectQuery } from '../../data/queries.ts'
import { Page } from '../../ui/page/page.tsx'
import { QueryError } from '../../ui/page/states.tsx'
import { Tabs } from '../../ui/page/tabs.tsx'

/** The layout of a project's pages. */
export function Project() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const project = useQuery(projectQuery(projectId))
  const params = { projectId }
  return (
    <Page
      title={project.data?.name ?? 'Project'}
      lead={
        <>
          <Link to="/projects" className="hover:text-ink">
            Projects
          </Link>{' '}
          / <code className="text-[13px]">{projectId}</code>
        </>
      }
    >
      <QueryError error={project.error} retry={() => void project.refetch()} />
      {/* The pages below would only repeat the error of a project that cannot be loaded. */}
      {project.isLoadingError && isClientError(project.error) ? null : (
        <>
          <Tabs
            label="Project"
            tabs={[
              { to: '/projects/$projectId', params, label: 'Overview', activeOptions: { exact: true } },
              { to: '/projects/$projectId/deployments', params, label: 'Deployments' },
              { to: '/projects/$projectId/databases', params, label: 'Databases' },
              { to: '/projects/$projectId/storage', params, label: 'Storage' },
              { to: '/projects/$projectId/trust', params, label: 'Trust' },
              { to: '/projects/$projectId/settings', params, label: 'Settings' },
            ]}
          />
          <Outlet />
        </>
      )}
    </Page>
  )
}
