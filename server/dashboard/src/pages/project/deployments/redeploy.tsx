import { useQuery } from '@tanstack/react-query'
import type { Deployment } from '../../../data/deployments.ts'
import { deploymentQuery } from '../../../data/queries.ts'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { CreateDeployment } from './create-deployment.tsx'

interface RedeployProps {
  readonly deployment: Deployment
  readonly title: string
  readonly open: boolean
  readonly onClose: () => void
}

/** Creates a new release of an app from the source of this deployment and the variables of the app's latest release. */
export function Redeploy({ deployment, title, open, onClose }: RedeployProps) {
  const { project_id, latest_id } = deployment
  const latest = useQuery({ ...deploymentQuery(project_id, latest_id), enabled: open })
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={title}
      description="Creates a new release. Variables keep their values unless you change or remove them."
    >
      <QueryView query={latest} label="the latest release">
        {({ env_var_names }) => (
          <CreateDeployment projectId={project_id} source={{ ...deployment, env_var_names }} onCancel={onClose} />
        )}
      </QueryView>
    </Dialog>
  )
}
