import type { ResponseBody } from '@fairlead/server/client'
import { duration, useNow } from '../../../ui/display/time.tsx'

interface TookProps {
  readonly deployment: Pick<ResponseBody<'deployments.get'>, 'status' | 'started_at' | 'finished_at'>
}

/** How long a deployment has taken, or takes until now. */
export function Took({ deployment: { status, started_at, finished_at } }: TookProps) {
  const now = useNow(1_000)
  if (started_at === null) return status === 'building' ? 'waits for its turn' : '–'
  const end = finished_at === null ? now.getTime() : Date.parse(finished_at)
  return <span className="whitespace-nowrap">{duration(end - Date.parse(started_at))}</span>
}
