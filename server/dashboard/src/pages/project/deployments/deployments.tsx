import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { deploymentsQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { LoadMore } from '../../../ui/page/load-more.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { CreateDeployment } from './create-deployment.tsx'
import { DeploymentsTable } from './deployments-table.tsx'

/** The branch, commit and duration of each deployment take a request, so only some are shown at a time. */
const pageSize = 25

export function Deployments() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const deployments = useQuery(deploymentsQuery(projectId))
  const [creating, setCreating] = useState(false)
  const [shown, setShown] = useState(pageSize)
  return (
    <>
      <Panel
        title="Deployments"
        flush
        actions={
          <Button variant="primary" size="small" icon={<Plus size={15} />} onClick={() => setCreating(true)}>
            Deploy
          </Button>
        }
      >
        <QueryView query={deployments} label="deployments">
          {(data) => <DeploymentsTable projectId={projectId} deployments={data.deployments.slice(0, shown)} />}
        </QueryView>
        {(deployments.data?.deployments.length ?? 0) > shown && (
          <LoadMore label="Show older deployments" onClick={() => setShown(shown + pageSize)} />
        )}
      </Panel>
      <Dialog
        open={creating}
        onClose={() => setCreating(false)}
        title="Deploy an app"
        description="Fetches, builds and starts a git repository."
      >
        <CreateDeployment projectId={projectId} onCancel={() => setCreating(false)} />
      </Dialog>
    </>
  )
}
