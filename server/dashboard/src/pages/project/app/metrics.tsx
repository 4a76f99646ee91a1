import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams, useSearch } from '@tanstack/react-router'
import { type MetricsRange, metricsQuery } from '../../../data/queries.ts'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { TimeChart } from '../../../ui/display/time-chart.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'

type Answer = ResponseBody<'metrics.get'>
type Point = Answer['points'][number]

const ranges = { '1h': 'Last hour', '24h': 'Last 24 hours', '7d': 'Last 7 days' } as const satisfies Record<
  MetricsRange,
  string
>

/** The requests of an app and its use of the machine, with its releases. */
export function Metrics() {
  const { projectId, appId } = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const { range = '1h' } = useSearch({ from: '/layout/projects/$projectId/apps/$appId/metrics' })
  const metrics = useQuery(metricsQuery(projectId, appId, range))
  return (
    <>
      <RangeChoice value={range} />
      <QueryView query={metrics} label="the metrics">
        {(answer) => (
          <div className="grid gap-5 lg:grid-cols-2">
            <Panel title="Requests">
              <RequestsChart answer={answer} />
            </Panel>
            <Panel title="Response times">
              <TimesChart answer={answer} />
            </Panel>
            <Panel title="Memory">
              <MemoryChart answer={answer} />
            </Panel>
            <Panel title="CPU">
              <CpuChart answer={answer} />
            </Panel>
            <Panel title="Instances">
              <InstancesChart answer={answer} />
            </Panel>
          </div>
        )}
      </QueryView>
    </>
  )
}

function RangeChoice({ value }: { readonly value: MetricsRange }) {
  return (
    <nav aria-label="Range" className="flex flex-wrap gap-1">
      {(['1h', '24h', '7d'] as const).map((range) => (
        <Link
          key={range}
          from="/projects/$projectId/apps/$appId/metrics"
          to="."
          search={range === '1h' ? {} : { range }}
          aria-current={range === value ? 'page' : undefined}
          className={`rounded-md border px-2.5 py-1 ${
            range === value ? 'border-accent bg-accent-soft font-medium' : 'border-line text-muted hover:text-ink'
          }`}
        >
          {ranges[range]}
        </Link>
      ))}
    </nav>
  )
}

interface ChartProps {
  readonly answer: Answer
}

/** The parts that all charts of an answer share. */
const common = ({ points, step_seconds, releases }: Answer) => ({
  times: points.map(({ at }) => at),
  stepSeconds: step_seconds,
  markers: releases.map(({ at, id, commit }) => ({
    at,
    label: `Release ${commit === null ? id : commit.slice(0, 7)}, ${new Date(at).toLocaleString('en')}`,
  })),
})

const column = <Name extends keyof Point>({ points }: Answer, name: Name): Point[Name][] =>
  points.map((point) => point[name])

const count = (value: number): string => Math.round(value).toLocaleString('en')
const milliseconds = (value: number): string =>
  value >= 1_000 ? `${(value / 1_000).toPrecision(3)} s` : `${value.toPrecision(3)} ms`
const cores = (value: number): string => `${Number(value.toPrecision(3))} CPU`

const classes = [
  ['2xx', 'status_2xx', 'fill-good'],
  ['3xx', 'status_3xx', 'fill-line-strong'],
  ['4xx', 'status_4xx', 'fill-warn'],
  ['5xx', 'status_5xx', 'fill-bad'],
] as const

function RequestsChart({ answer }: ChartProps) {
  const { totals } = answer
  return (
    <TimeChart
      {...common(answer)}
      summary={`${count(totals.requests)} requests: ${classes.map(([name, field]) => `${count(totals[field])} × ${name}`).join(', ')}`}
      series={classes.map(([name, field, className]) => ({
        name,
        kind: 'area',
        className,
        values: column(answer, field),
      }))}
      format={count}
    />
  )
}

const percentiles = [
  ['p50', 'p50_ms', 'stroke-good'],
  ['p95', 'p95_ms', 'stroke-warn'],
  ['p99', 'p99_ms', 'stroke-bad'],
] as const

function TimesChart({ answer }: ChartProps) {
  const { totals } = answer
  const text = percentiles.map(([name, field]) => `${name} ${milliseconds(totals[field] ?? 0)}`).join(', ')
  return (
    <TimeChart
      {...common(answer)}
      summary={totals.p50_ms === null ? 'No answer of the app' : text}
      series={percentiles.map(([name, field, className]) => ({
        name,
        kind: 'line',
        className,
        values: column(answer, field),
      }))}
      format={milliseconds}
    />
  )
}

const unmeasured = 'Nothing was measured: no process ran'

/** Says the latest value beside its limit. */
function latestOf(
  answer: Answer,
  value: (point: Point) => number | null,
  limit: (point: Point) => number | null,
  format: (value: number) => string,
): string {
  const latest = answer.points.findLast((point) => value(point) !== null)
  if (latest === undefined) return unmeasured
  const most = limit(latest)
  return `${format(value(latest) ?? 0)}${most === null ? '' : ` of ${format(most)}`} at last`
}

function MemoryChart({ answer }: ChartProps) {
  return (
    <TimeChart
      {...common(answer)}
      summary={latestOf(
        answer,
        (point) => point.memory_bytes,
        (point) => point.memory_limit_bytes,
        formatBytes,
      )}
      series={[
        { name: 'used', kind: 'area', className: 'fill-accent', values: column(answer, 'memory_bytes') },
        { name: 'limit', kind: 'limit', className: 'stroke-bad', values: column(answer, 'memory_limit_bytes') },
      ]}
      format={formatBytes}
    />
  )
}

function CpuChart({ answer }: ChartProps) {
  return (
    <TimeChart
      {...common(answer)}
      summary={latestOf(
        answer,
        (point) => point.cpus,
        (point) => point.cpu_limit,
        cores,
      )}
      series={[
        { name: 'used', kind: 'area', className: 'fill-accent', values: column(answer, 'cpus') },
        { name: 'limit', kind: 'limit', className: 'stroke-bad', values: column(answer, 'cpu_limit') },
      ]}
      format={cores}
    />
  )
}

function InstancesChart({ answer }: ChartProps) {
  const { restarts } = answer.totals
  const latest = answer.points.findLast(({ instances }) => instances !== null)?.instances
  const now = latest == null ? unmeasured : `${latest} at last`
  return (
    <TimeChart
      {...common(answer)}
      summary={`${now}, started again ${restarts === 1 ? 'once' : `${count(restarts)} times`}`}
      series={[
        { name: 'instances', kind: 'area', className: 'fill-accent', values: column(answer, 'instances') },
        { name: 'restarts', kind: 'line', className: 'stroke-bad', values: column(answer, 'restarts') },
      ]}
      format={count}
    />
  )
}
