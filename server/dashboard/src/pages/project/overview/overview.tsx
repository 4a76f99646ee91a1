import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { ExternalLink } from 'lucide-react'
import { latestByApp } from '../../../data/deployments.ts'
import { deploymentsQuery, projectQuery } from '../../../data/queries.ts'
import { buttonClass } from '../../../ui/controls/button.tsx'
import { bytes } from '../../../ui/display/bytes.ts'
import { Facts } from '../../../ui/display/description-list.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { DeploymentsChart } from './deployments-chart.tsx'
import { DurationsChart } from './durations-chart.tsx'
import { TrafficChart } from './traffic-chart.tsx'

export function Overview() {
  const { projectId } = useParams({ from: '/frame/projects/$projectId' })
  const project = useQuery(projectQuery(projectId))
  const deployments = useQuery(deploymentsQuery(projectId))
  return (
    <>
      <div className="grid gap-5 lg:grid-cols-3">
        <div className="lg:col-span-2">
          <Panel title="Apps" flush>
            <Queried query={deployments} what="apps">
              {(data) => {
                const apps = latestByApp(data.deployments)
                return apps.length === 0 ? (
                  <Empty title="Nothing is deployed yet">
                    <Link
                      to="/projects/$projectId/deployments"
                      params={{ projectId }}
                      className={buttonClass({ look: 'primary' })}
                    >
                      Deploy an app
                    </Link>
                  </Empty>
                ) : (
                  <Table
                    label="Apps"
                    rows={apps}
                    keyOf={({ name }) => name}
                    columns={[
                      {
                        title: 'App',
                        cell: ({ name, latest }) => (
                          <Link
                            to="/projects/$projectId/deployments/$deploymentId"
                            params={{ projectId, deploymentId: latest.id }}
                            className="font-medium hover:text-accent"
                          >
                            {name}
                          </Link>
                        ),
                      },
                      { title: 'Status', cell: ({ serving, latest }) => <Status value={(serving ?? latest).status} /> },
                      {
                        title: 'Address',
                        wide: true,
                        cell: ({ url }) => (
                          <a
                            href={url}
                            target="_blank"
                            rel="noreferrer"
                            className="inline-flex items-center gap-1 hover:text-accent"
                          >
                            {url.replace(/^https?:\/\//, '')}
                            <ExternalLink size={12} aria-hidden="true" />
                          </a>
                        ),
                      },
                      {
                        title: 'Last deployment',
                        align: 'right',
                        cell: ({ latest }) => <Time at={latest.created_at} />,
                      },
                    ]}
                  />
                )
              }}
            </Queried>
          </Panel>
        </div>
        <Panel title="Figures">
          <Queried query={project} what="the project">
            {({ plan, region, resources, created_at }) => (
              <Facts
                facts={[
                  ['Deployments', resources.deployments],
                  ['Databases', resources.databases],
                  ['Storage', bytes(resources.storage_gb * 1e9)],
                  ['Plan', plan],
                  ['Region', region],
                  ['Created', <Time key="created" at={created_at} />],
                ]}
              />
            )}
          </Queried>
        </Panel>
      </div>
      {deployments.data !== undefined && deployments.data.deployments.length > 0 && (
        <div className="grid gap-5 lg:grid-cols-3">
          <Panel title="Requests of the last day">
            <TrafficChart projectId={projectId} />
          </Panel>
          <Panel title="Deployments in 14 days">
            <DeploymentsChart deployments={deployments.data.deployments} />
          </Panel>
          <Panel title="How long the last ones took">
            <DurationsChart projectId={projectId} deployments={deployments.data.deployments} />
          </Panel>
        </div>
      )}
    </>
  )
}
