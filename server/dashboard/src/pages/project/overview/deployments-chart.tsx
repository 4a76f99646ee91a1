import { type Day, type DeploymentItem, outcomesByDay } from '../../../data/deployments.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'

const days = 14
const series = [
  { name: 'succeeded', className: 'fill-good' },
  { name: 'failed', className: 'fill-bad' },
  { name: 'other', className: 'fill-line-strong' },
]

export function DeploymentsChart({ deployments }: { readonly deployments: readonly DeploymentItem[] }) {
  const outcomes = outcomesByDay(deployments, days, new Date())
  const total = (outcome: Exclude<keyof Day, 'label'>) => outcomes.reduce((sum, day) => sum + day[outcome], 0)
  return (
    <BarChart
      summary={`${total('succeeded')} succeeded, ${total('failed')} failed, ${total('other')} canceled or in progress`}
      series={series}
      bars={outcomes.map(({ label, succeeded, failed, other }) => ({
        key: label,
        label,
        values: [succeeded, failed, other],
      }))}
    />
  )
}
