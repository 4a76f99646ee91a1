import { useQueries } from '@tanstack/react-query'
import type { DeploymentItem } from '../../../data/deployments.ts'
import { deploymentFactsQuery } from '../../../data/queries.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'
import { duration } from '../../../ui/display/time.tsx'
import { Loading } from '../../../ui/page/states.tsx'

/** Each takes a request. */
const most = 20
const series = [{ name: 'seconds', className: 'fill-accent' }]

interface DurationsChartProps {
  readonly projectId: string
  readonly deployments: readonly DeploymentItem[]
}

/** How long the last deployments took, oldest first. */
export function DurationsChart({ projectId, deployments }: DurationsChartProps) {
  const ended = deployments.filter(({ status }) => status !== 'building').slice(0, most)
  const details = useQueries({ queries: ended.map(({ id }) => deploymentFactsQuery(projectId, id)) })
  const took = details
    .flatMap(({ data }) =>
      data?.started_at && data.finished_at
        ? [{ id: data.id, name: data.name, ms: Date.parse(data.finished_at) - Date.parse(data.started_at) }]
        : [],
    )
    .reverse()
  if (took.length === 0 && details.some(({ isPending }) => isPending)) return <Loading what="durations" />
  if (took.length === 0) return <p className="text-muted">None of them has ended yet.</p>
  const longest = Math.max(...took.map(({ ms }) => ms))
  const mean = took.reduce((sum, { ms }) => sum + ms, 0) / took.length
  return (
    <BarChart
      summary={`${duration(mean)} on average, ${duration(longest)} at most`}
      series={series}
      bars={took.map(({ id, name, ms }) => ({ key: id, label: name, values: [Math.round(ms / 100) / 10] }))}
    />
  )
}
