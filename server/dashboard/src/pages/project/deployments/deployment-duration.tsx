import type { Deployment } from '../../../data/deployments.ts'
import { formatDuration, useNow } from '../../../ui/display/time.tsx'

interface DeploymentDurationProps {
  readonly deployment: Pick<Deployment, 'status' | 'started_at' | 'finished_at'>
}

/** The duration of a deployment; until now while it is in progress. */
export function DeploymentDuration({ deployment: { status, started_at, finished_at } }: DeploymentDurationProps) {
  const now = useNow(1_000)
  if (started_at === null) return status === 'building' ? 'queued' : '–'
  const end = finished_at === null ? now.getTime() : Date.parse(finished_at)
  return <span className="whitespace-nowrap">{formatDuration(end - Date.parse(started_at))}</span>
}
