import { type DeploymentItem, outcomesByDay } from '../../../data/deployments.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'

const days = 14
const series = [
  { name: 'succeeded', className: 'fill-good' },
  { name: 'failed', className: 'fill-bad' },
  { name: 'other', className: 'fill-line-strong' },
]

export function DeploymentsChart({ deployments }: { readonly deployments: readonly DeploymentItem[] }) {
  const outcomes = outcomesByDay(deployments, days, new Date())
  const sum = (pick: (day: (typeof outcomes)[number]) => number) => outcomes.reduce((all, day) => all + pick(day), 0)
  return (
    <BarChart
      summary={`${sum((day) => day.succeeded)} succeeded, ${sum((day) => day.failed)} failed, ${sum((day) => day.other)} canceled or under way`}
      series={series}
      bars={outcomes.map(({ label, succeeded, failed, other }) => ({
        key: label,
        label,
        values: [succeeded, failed, other],
      }))}
    />
  )
}
