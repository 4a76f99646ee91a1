import { type Command, Option } from 'commander'
import type { ResponseBody } from '../../contract/client.ts'
import type { LocalServer } from './connection.ts'
import { type AppFlags, appCommand, withNamedApp } from './find-app.ts'

type Metrics = ResponseBody<'metrics.get'>
type Point = Metrics['points'][number]

interface MetricsFlags extends AppFlags {
  readonly range: Metrics['range']
  readonly json?: true
}

export function metricsCommand(local?: LocalServer): Command {
  return appCommand('metrics', 'print the requests, response times, CPU and memory of an app', local)
    .addOption(
      new Option('--range <time>', '1h by the minute, 24h by ten minutes, 7d by the hour')
        .choices(['1h', '24h', '7d'])
        .default('1h'),
    )
    .option('--json', 'print the answer of the server as JSON')
    .action((app: string, { range, json, ...flags }: MetricsFlags) =>
      withNamedApp(local, flags, app, async ({ connection, params }) => {
        const metrics = await connection.client.metrics.get({ params, query: { range } })
        for (const line of json === true ? [JSON.stringify(metrics)] : metricsLines(metrics)) {
          process.stdout.write(`${line}\n`)
        }
      }),
    )
}

const head = [
  'time',
  'requests',
  '2xx',
  '3xx',
  '4xx',
  '5xx',
  'p50',
  'p95',
  'p99',
  'CPU',
  'memory',
  'instances',
  'restarts',
]

/** Returns a table with a line for each step that has data, a line of totals, and the releases. */
function metricsLines({ range, points, totals, releases }: Metrics): string[] {
  const seen = points.filter(({ requests, instances, restarts }) => requests > 0 || instances !== null || restarts > 0)
  if (seen.length === 0) return [`Nothing was measured in the last ${range}.`]
  const all = { ...totals, cpus: null, cpu_limit: null, memory_bytes: null, memory_limit_bytes: null, instances: null }
  const rows = [head, ...seen.map((point) => cellsOf(point.at, point)), cellsOf(`all of ${range}`, all)]
  const widths = head.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) =>
    row
      .map((cell, column) => pad(cell, widths[column] ?? 0, column))
      .join('  ')
      .trimEnd(),
  )
  return [
    ...lines,
    ...releases.map(
      ({ at, id, commit }) => `${at} release ${id}${commit === null ? '' : `, commit ${commit.slice(0, 12)}`}`,
    ),
  ]
}

const pad = (cell: string, width: number, column: number): string =>
  column === 0 ? cell.padEnd(width) : cell.padStart(width)

function cellsOf(name: string, point: Omit<Point, 'at'>): string[] {
  const { requests, status_2xx, status_3xx, status_4xx, status_5xx, p50_ms, p95_ms, p99_ms, restarts } = point
  const { cpus, cpu_limit, memory_bytes, memory_limit_bytes, instances } = point
  return [
    name,
    ...[requests, status_2xx, status_3xx, status_4xx, status_5xx].map(String),
    ...[p50_ms, p95_ms, p99_ms].map((ms) => (ms === null ? '-' : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`)),
    ofLimit(cpus, cpu_limit, (value) => value.toFixed(2).replace(/\.?0+$/, '')),
    ofLimit(memory_bytes, memory_limit_bytes, (value) => `${Math.round(value / 1e6)} MB`),
    instances === null ? '-' : String(instances),
    String(restarts),
  ]
}

/** Returns text such as `48 MB/512 MB`; `-` for a value that was not measured. */
function ofLimit(value: number | null, limit: number | null, text: (value: number) => string): string {
  if (value === null) return '-'
  return limit === null ? text(value) : `${text(value)}/${text(limit)}`
}
