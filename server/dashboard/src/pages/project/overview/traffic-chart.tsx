import { useQuery } from '@tanstack/react-query'
import { trafficQuery } from '../../../data/queries.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'

const series = [
  { name: 'answered', className: 'fill-accent' },
  { name: 'errors', className: 'fill-bad' },
]
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

/** What the apps of a project were asked, hour by hour. */
export function TrafficChart({ projectId }: { readonly projectId: string }) {
  const query = useQuery(trafficQuery(projectId))
  return (
    <Queried query={query} what="the traffic">
      {({ traffic }) => {
        const requests = traffic.reduce((sum, each) => sum + each.requests, 0)
        const errors = traffic.reduce((sum, each) => sum + each.errors, 0)
        return (
          <BarChart
            summary={`${counted(requests, 'request')}, ${errors === 0 ? 'no error' : counted(errors, 'error')}`}
            series={series}
            bars={traffic.map((each) => ({
              key: each.hour,
              label: clock.format(new Date(each.hour)),
              // What has gone wrong may have been asked in the hour before.
              values: [Math.max(0, each.requests - each.errors), each.errors],
            }))}
          />
        )
      }}
    </Queried>
  )
}

const counted = (count: number, what: string): string =>
  `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`
