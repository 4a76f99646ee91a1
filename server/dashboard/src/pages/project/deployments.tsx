import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { deploymentsQuery } from '../../data/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Panel } from '../../ui/page.tsx'
import { Queried } from '../../ui/query.tsx'
import { Empty } from '../../ui/states.tsx'
import { Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { Time } from '../../ui/time.tsx'
import { CreateDeployment } from './create-deployment.tsx'

export function Deployments() {
  const { projectId } = useParams({ from: '/frame/projects/$projectId' })
  const deployments = useQuery(deploymentsQuery(projectId))
  const [creating, setCreating] = useState(false)
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
                rows={data.deployments}
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
                    title: 'Id',
                    wide: true,
                    cell: ({ id }) => <code className="text-[12px] text-muted">{id}</code>,
                  },
                  { title: 'Created', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
                ]}
              />
            )
          }
        </Queried>
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
