import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { GitBranch, Plus } from 'lucide-react'
import { useState } from 'react'
import { deploymentFactsQuery, deploymentsQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { CreateDeployment } from './create-deployment.tsx'
import { Took } from './deployment-duration.tsx'

/** So many are shown at first: branch, commit and duration of each take a request. */
const firstShown = 25

export function Deployments() {
  const { projectId } = useParams({ from: '/frame/projects/$projectId' })
  const deployments = useQuery(deploymentsQuery(projectId))
  const [creating, setCreating] = useState(false)
  const [most, setMost] = useState(firstShown)
  return (
    <>
      <Panel
        title="Deployments"
        flush
        actions={
          <Button look="primary" size="small" icon={<Plus size={15} />} onClick={() => setCreating(true)}>
            Deploy
          </Button>
        }
      >
        <Queried query={deployments} what="deployments">
          {(data) =>
            data.deployments.length === 0 ? (
              <Empty title="No deployment yet">
                <p>Deploy a git repository here, or let a push do it: see Get started.</p>
              </Empty>
            ) : (
              <Table
                label="Deployments"
                rows={data.deployments.slice(0, most)}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: 'App',
                    cell: ({ id, name }) => (
                      <Link
                        to="/projects/$projectId/deployments/$deploymentId"
                        params={{ projectId, deploymentId: id }}
                        className="font-medium hover:text-accent"
                      >
                        {name}
                      </Link>
                    ),
                  },
                  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
                  {
                    title: 'Branch and commit',
                    wide: true,
                    cell: ({ id }) => <Source projectId={projectId} id={id} />,
                  },
                  { title: 'Took', wide: true, cell: ({ id }) => <Duration projectId={projectId} id={id} /> },
                  { title: 'Created', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
                ]}
              />
            )
          }
        </Queried>
        {(deployments.data?.deployments.length ?? 0) > most && (
          <div className="border-line border-t p-3 text-center">
            <Button onClick={() => setMost(most + firstShown)}>Show older ones</Button>
          </div>
        )}
      </Panel>
      <Dialog
        open={creating}
        onOpenChange={setCreating}
        title="Deploy an app"
        description="Fetches, builds and starts a git repository."
      >
        <CreateDeployment projectId={projectId} onCancel={() => setCreating(false)} />
      </Dialog>
    </>
  )
}

interface OfDeployment {
  readonly projectId: string
  readonly id: string
}

function Source({ projectId, id }: OfDeployment) {
  const { data } = useQuery(deploymentFactsQuery(projectId, id))
  if (data === undefined) return <span className="text-muted">…</span>
  return (
    <span className="flex items-center gap-2">
      <GitBranch size={14} className="shrink-0 text-muted" aria-hidden="true" />
      <span className="max-w-48 truncate">{data.branch ?? 'default'}</span>
      {data.commit !== null && <code className="text-[12px] text-muted">{data.commit.slice(0, 7)}</code>}
    </span>
  )
}

function Duration({ projectId, id }: OfDeployment) {
  const { data } = useQuery(deploymentFactsQuery(projectId, id))
  return data === undefined ? <span className="text-muted">…</span> : <Took deployment={data} />
}
