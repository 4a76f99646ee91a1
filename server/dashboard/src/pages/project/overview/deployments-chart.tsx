import { useQuery } from '@tanstack/react-query'
import { type Day, outcomesByDay } from '../../../data/deployments.ts'
import { outcomesQuery } from '../../../data/queries.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'

const days = 14
const series = [
  { name: 'succeeded', className: 'fill-good' },
  { name: 'failed', className: 'fill-bad' },
  { name: 'other', className: 'fill-line-strong' },
]

/** The outcomes of all deployments of a project, day by day. */
export function DeploymentsChart({ projectId }: { readonly projectId: string }) {
  const query = useQuery(outcomesQuery(projectId))
  return (
    <QueryView query={query} label="the outcomes">
      {({ outcomes }) => <Outcomes days={outcomesByDay(outcomes, days, new Date())} />}
    </QueryView>
  )
}

function Outcomes({ days }: { readonly days: readonly Day[] }) {
  const total = (outcome: Exclude<keyof Day, 'label'>) => days.reduce((sum, day) => sum + day[outcome], 0)
  return (
    <BarChart
      summary={`${total('succeeded')} succeeded, ${total('failed')} failed, ${total('other')} canceled or in progress`}
      series={series}
      bars={days.map(({ label, succeeded, failed, other }) => ({
        key: label,
        label,
        values: [succeeded, failed, other],
      }))}
    />
  )
}
