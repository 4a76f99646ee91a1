import { useInfiniteQuery } from '@tanstack/react-query'
import { releasesQuery } from '../../../data/queries.ts'
import { BarChart } from '../../../ui/display/bar-chart.tsx'
import { formatDuration } from '../../../ui/display/time.tsx'
import { Loading, QueryError } from '../../../ui/page/states.tsx'

const maxDeployments = 20
const series = [{ name: 'seconds', className: 'fill-accent' }]

/** The durations of the last deployments, oldest first. */
export function DurationsChart({ projectId }: { readonly projectId: string }) {
  const query = useInfiniteQuery(releasesQuery(projectId))
  if (query.data === undefined) {
    return query.isLoadingError ? <QueryError error={query.error} /> : <Loading label="durations" />
  }
  const durations = (query.data.pages[0]?.releases ?? [])
    .flatMap(({ id, app, duration_ms }) => (duration_ms === null ? [] : [{ id, name: app.name, ms: duration_ms }]))
    .slice(0, maxDeployments)
    .reverse()
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
