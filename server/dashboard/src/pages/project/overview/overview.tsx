import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { appsQuery, projectQuery } from '../../../data/queries.ts'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { DescriptionList } from '../../../ui/display/description-list.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { AppsTable } from './apps-table.tsx'
import { CertificateProblems } from './certificate-problems.tsx'
import { DeploymentsChart } from './deployments-chart.tsx'
import { DurationsChart } from './durations-chart.tsx'
import { TrafficChart } from './traffic-chart.tsx'

export function Overview() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const apps = useQuery(appsQuery(projectId))
  return (
    <>
      <CertificateProblems projectId={projectId} />
      <div className="grid gap-5 lg:grid-cols-3">
        <div className="lg:col-span-2">
          <Panel title="Apps" flush>
            <QueryView query={apps} label="apps">
              {(data) => <AppsTable projectId={projectId} apps={data.apps} />}
            </QueryView>
          </Panel>
        </div>
        <ProjectDetails projectId={projectId} />
      </div>
      {apps.data !== undefined && apps.data.apps.length > 0 && (
        <div className="grid gap-5 lg:grid-cols-3">
          <Panel title="Requests in the last 24 hours">
            <TrafficChart projectId={projectId} />
          </Panel>
          <Panel title="Deployments in the last 14 days">
            <DeploymentsChart projectId={projectId} />
          </Panel>
          <Panel title="Latest deployment durations">
            <DurationsChart projectId={projectId} />
          </Panel>
        </div>
      )}
    </>
  )
}

function ProjectDetails({ projectId }: { readonly projectId: string }) {
  const project = useQuery(projectQuery(projectId))
  return (
    <Panel title="Project">
      <QueryView query={project} label="the project">
        {({ plan, region, resources, created_at }) => (
          <DescriptionList
            items={[
              ['Deployments', resources.deployments],
              ['Databases', resources.databases],
              ['Storage', formatBytes(resources.storage_gb * 1e9)],
              ['Plan', plan],
              ['Region', region],
              ['Created', <Time key="created" at={created_at} />],
            ]}
          />
        )}
      </QueryView>
    </Panel>
  )
}
