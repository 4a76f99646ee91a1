import type { Release } from '../../../data/deployments.ts'
import { RunLink } from '../../../ui/display/run-link.tsx'

type Cause = Release['trigger']

interface TriggerProps {
  /** Without `by` it is the cause of the deployment's creation. */
  readonly trigger: Omit<Cause, 'by'> & Partial<Pick<Cause, 'by'>>
}

/** The cause of a release: a user, a key or the run of a workflow, and whether it was started again. */
export function Trigger({ trigger: { kind, by, name, repository, run_url, actor, event } }: TriggerProps) {
  const caller = by ?? kind
  const again = kind === caller ? '' : `${kind} by `
  if (caller !== 'workflow') return `${again}${caller === 'key' ? 'API key' : 'user'} ${name ?? ''}`
  return (
    <>
      {again}
      <RunLink url={run_url}>run of {repository ?? 'a workflow'}</RunLink>
      <span className="text-muted">
        {event !== null && <> on {event}</>}
        {actor !== null && <> by {actor}</>}
      </span>
    </>
  )
}
