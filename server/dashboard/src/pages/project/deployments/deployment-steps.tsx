import { CircleCheck, CircleDashed, CircleSlash, CircleX, LoaderCircle } from 'lucide-react'
import { type ShownStep, shownSteps } from '../../../data/deployment-steps.ts'
import type { Deployment } from '../../../data/deployments.ts'
import { formatShortDuration, useNow } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'

const icons = { done: CircleCheck, active: LoaderCircle, failed: CircleX, ended: CircleSlash, pending: CircleDashed }

const tones: Readonly<Record<ShownStep['state'], string>> = {
  done: 'text-good',
  active: 'text-accent motion-safe:animate-spin',
  failed: 'text-bad',
  ended: 'text-muted',
  pending: 'text-muted',
}

const words: Readonly<Record<ShownStep['state'], string>> = {
  done: 'done',
  active: 'in progress',
  failed: 'failed',
  ended: 'ended',
  pending: 'not begun',
}

/** The steps of a deployment with their durations, while it is in progress and afterwards. */
export function DeploymentSteps({ deployment }: { readonly deployment: Deployment }) {
  return (
    <Panel title="Steps">
      <ol className="flex flex-wrap gap-x-6 gap-y-3">
        {shownSteps(deployment).map((step, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a step keeps its place, and a name may come twice
          <li key={index} className="flex items-center gap-2">
            <StepView step={step} />
          </li>
        ))}
      </ol>
    </Panel>
  )
}

function StepView({ step: { name, state, startedAt, finishedAt } }: { readonly step: ShownStep }) {
  const Icon = icons[state]
  return (
    <>
      <Icon size={16} className={`shrink-0 ${tones[state]}`} aria-hidden="true" />
      <span className={state === 'pending' ? 'text-muted' : 'font-medium'}>{name}</span>
      <span className="sr-only">{words[state]}</span>
      {startedAt !== null && <Duration from={startedAt} to={finishedAt} />}
    </>
  )
}

function Duration({ from, to }: { readonly from: string; readonly to: string | null }) {
  const now = useNow(1_000)
  const ms = (to === null ? now.getTime() : Date.parse(to)) - Date.parse(from)
  return (
    <time title={new Date(from).toLocaleTimeString()} className="text-muted tabular-nums">
      {formatShortDuration(ms)}
    </time>
  )
}
