import { Link } from '@tanstack/react-router'
import type { DeploymentItem } from '../../data/deployments.ts'
import { Step } from './step.tsx'

interface DeploymentStepProps {
  readonly done: boolean
  readonly projectId: string | undefined
  readonly deployment: DeploymentItem | undefined
}

export function DeploymentStep({ done, projectId, deployment }: DeploymentStepProps) {
  return (
    <Step done={done} title="The first deployment">
      {deployment === undefined || projectId === undefined ? (
        <p className="text-muted">It appears here as soon as it is created.</p>
      ) : (
        <p>
          <Link
            to="/projects/$projectId/deployments/$deploymentId"
            params={{ projectId, deploymentId: deployment.id }}
            className="text-accent underline"
          >
            {deployment.name}
          </Link>{' '}
          is {deployment.status}.
        </p>
      )}
    </Step>
  )
}
