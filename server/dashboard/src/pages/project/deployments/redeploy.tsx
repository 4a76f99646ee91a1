import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { deploymentQuery } from '../../../data/queries.ts'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { CreateDeployment } from './create-deployment.tsx'

interface RedeployProps {
  readonly deployment: ResponseBody<'deployments.get'>
  readonly title: string
  readonly open: boolean
  readonly onOpenChange: (open: boolean) => void
}

/** A further release of an app: its source as it was, its variables as those of its latest release are. */
export function Redeploy({ deployment, title, open, onOpenChange }: RedeployProps) {
  const { project_id, latest_id } = deployment
  const latest = useQuery({ ...deploymentQuery(project_id, latest_id), enabled: open })
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title={title}
      description="Makes a new release. Variables keep their values unless you type others or remove them."
    >
      <Queried query={latest} what="the latest release">
        {({ env_var_names }) => (
          <CreateDeployment
            projectId={project_id}
            source={{ ...deployment, env_var_names }}
            onCancel={() => onOpenChange(false)}
          />
        )}
      </Queried>
    </Dialog>
  )
}
