import { useInfiniteQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { releasesQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { useLinkedDialog } from '../../../ui/dialogs/use-linked-dialog.ts'
import { Panel } from '../../../ui/page/page.tsx'
import { PagedView } from '../../../ui/page/paged-view.tsx'
import { CreateDeployment } from './create-deployment.tsx'
import { DeploymentsTable } from './deployments-table.tsx'

export function Deployments() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const releases = useInfiniteQuery(releasesQuery(projectId))
  const [creating, setCreating] = useLinkedDialog()
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
        <PagedView query={releases} label="deployments">
          {(pages) => <DeploymentsTable projectId={projectId} releases={pages.flatMap((page) => page.releases)} />}
        </PagedView>
      </Panel>
      <Dialog
        open={creating}
        onClose={() => setCreating(false)}
        title="Deploy an app"
        description="Deploys a git repository or a container image."
      >
        <CreateDeployment projectId={projectId} onCancel={() => setCreating(false)} />
      </Dialog>
    </>
  )
}
