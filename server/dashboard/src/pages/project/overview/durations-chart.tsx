import { useQueries } from '@tanstack/react-query'
import type { DeploymentItem } from '../../../data/deployments.ts'
import { deploymentSummaryQuery } from '../../../data/queries.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'
import { formatDuration } from '../../../ui/display/time.tsx'
import { Loading } from '../../../ui/page/states.tsx'

/** The times of each deployment take a request, so only the last ones are shown. */
const maxDeployments = 20
const series = [{ name: 'seconds', className: 'fill-accent' }]

interface DurationsChartProps {
  readonly projectId: string
  readonly deployments: readonly DeploymentItem[]
}

/** The durations of the last deployments, oldest first. */
export function DurationsChart({ projectId, deployments }: DurationsChartProps) {
  const finished = deployments.filter(({ status }) => status !== 'building').slice(0, maxDeployments)
  const details = useQueries({ queries: finished.map(({ id }) => deploymentSummaryQuery(projectId, id)) })
  const durations = details
    .flatMap(({ data }) =>
      data?.started_at && data.finished_at
        ? [{ id: data.id, name: data.name, ms: Date.parse(data.finished_at) - Date.parse(data.started_at) }]
        : [],
    )
    .reverse()
  if (durations.length === 0 && details.some(({ isPending }) => isPending)) return <Loading label="durations" />
  if (durations.length === 0) return <p className="text-muted">No deployment has finished yet.</p>
  const longest = Math.max(...durations.map(({ ms }) => ms))
  const mean = durations.reduce((sum, { ms }) => sum + ms, 0) / durations.length
  return (
    <BarChart
      summary={`${formatDuration(mean)} on average, ${formatDuration(longest)} at most`}
      series={series}
      bars={durations.map(({ id, name, ms }) => ({ key: id, label: name, values: [Math.round(ms / 100) / 10] }))}
    />
  )
}
