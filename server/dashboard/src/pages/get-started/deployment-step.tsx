import { Link } from '@tanstack/react-router'
import type { App } from '../../data/deployments.ts'
import { Step } from './step.tsx'

interface DeploymentStepProps {
  readonly done: boolean
  readonly projectId: string | undefined
  readonly app: App | undefined
}

export function DeploymentStep({ done, projectId, app }: DeploymentStepProps) {
  return (
    <Step done={done} title="The first deployment">
      {app === undefined || projectId === undefined ? (
        <p className="text-muted">It appears here as soon as it is created.</p>
      ) : (
        <p>
          <Link
            to="/projects/$projectId/deployments/$deploymentId"
            params={{ projectId, deploymentId: (app.serving ?? app.latest).id }}
            className="text-accent underline"
          >
            {app.name}
          </Link>{' '}
          is {(app.serving ?? app.latest).status}.
        </p>
      )}
    </Step>
  )
}
