import { useQuery } from '@tanstack/react-query'
import { trafficQuery } from '../../../data/queries.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'

const series = [
  { name: 'answered', className: 'fill-accent' },
  { name: 'errors', className: 'fill-bad' },
]
const hourFormat = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

/** The requests to the apps of a project, hour by hour. */
export function TrafficChart({ projectId }: { readonly projectId: string }) {
  const query = useQuery(trafficQuery(projectId))
  return (
    <QueryView query={query} label="the traffic">
      {({ traffic }) => {
        const requests = traffic.reduce((sum, hour) => sum + hour.requests, 0)
        const errors = traffic.reduce((sum, hour) => sum + hour.errors, 0)
        return (
          <BarChart
            summary={`${plural(requests, 'request')}, ${errors === 0 ? 'no error' : plural(errors, 'error')}`}
            series={series}
            bars={traffic.map(({ hour, requests, errors }) => ({
              key: hour,
              label: hourFormat.format(new Date(hour)),
              // Errors may be counted an hour after their request, so they can exceed the requests of an hour.
              values: [Math.max(0, requests - errors), errors],
            }))}
          />
        )
      }}
    </QueryView>
  )
}

const plural = (count: number, noun: string): string => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
