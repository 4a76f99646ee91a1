import type { Deployment } from '../../../data/deployments.ts'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { CreateDeployment } from './create-deployment.tsx'

interface RedeployProps {
  readonly deployment: Deployment
  readonly title: string
  /** The folder of the app, in place of the deployment's own. */
  readonly root?: string | undefined
  readonly open: boolean
  readonly onClose: () => void
}

const newestOf = ({ image }: Deployment): string =>
  image === null ? 'the newest commit of the branch' : 'what the image is now'

/** Creates a new release of an app from the source of this deployment. It has the variables of the app. */
export function Redeploy({ deployment, title, root, open, onClose }: RedeployProps) {
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={title}
      description={`Creates a new release of ${newestOf(deployment)}. The app keeps its variables.`}
    >
      <CreateDeployment
        projectId={deployment.project_id}
        source={{ ...deployment, root: root ?? deployment.root }}
        onCancel={onClose}
      />
    </Dialog>
  )
}
