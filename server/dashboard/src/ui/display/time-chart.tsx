import type { ReactNode } from 'react'

/** Values over time: a filled area, a line, or a dashed line for a limit. */
interface Series {
  readonly name: string
  readonly kind: 'area' | 'line' | 'limit'
  /** Sets `fill` for an area and `stroke` for lines. */
  readonly className: string
  /** One for each time; null where unknown. */
  readonly values: readonly (number | null)[]
}

interface TimeChartProps {
  /** The data as a sentence: the chart's text alternative. */
  readonly summary: string
  /** One for each value. */
  readonly times: readonly string[]
  readonly stepSeconds: number
  /** Drawn in their order; areas are stacked. */
  readonly series: readonly Series[]
  /** Events, shown as vertical lines. */
  readonly markers: readonly { readonly at: string; readonly label: string }[]
  readonly format: (value: number) => string
}

const width = 600
const height = 100

/** A chart of values over time in SVG. Its summary gives the data in words; each time shows its values on hover. */
export function TimeChart({ summary, times, stepSeconds, series, markers, format }: TimeChartProps) {
  const max = Math.max(...stacked(series).flatMap(({ values }) => values.map((value) => value ?? 0)), 0) || 1
  const step = width / times.length
  const from = Date.parse(times[0] ?? '')
  const xOf = (at: string): number => ((Date.parse(at) - from) / (stepSeconds * 1000)) * step
  const y = (value: number): number => height - (value / max) * height
  const clock = clockOf(stepSeconds)
  return (
    <figure className="grid gap-1.5">
      <div aria-hidden="true" className="flex flex-wrap justify-between gap-x-4 text-[12px] text-muted">
        <Legend series={series} />
        <span>{format(max)} at the top</span>
      </div>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        className="h-28 w-full border-line border-b"
        role="img"
        aria-label={summary}
      >
        {stacked(series).map(({ name, kind, className, values }) => (
          <path key={name} d={pathOf(kind, values, step, y)} className={className} {...strokeOf(kind)} />
        ))}
        {markers.map(({ at, label }) => (
          <line
            key={`${at} ${label}`}
            x1={xOf(at)}
            x2={xOf(at)}
            y1={0}
            y2={height}
            className="stroke-ink"
            strokeWidth={1.5}
            strokeDasharray="2 3"
            vectorEffect="non-scaling-stroke"
          >
            <title>{label}</title>
          </line>
        ))}
        {times.map((at, index) => (
          <rect key={at} x={index * step} y={0} width={step} height={height} fill="transparent">
            <title>{`${clock.format(new Date(at))}: ${valuesAt(series, index, format)}`}</title>
          </rect>
        ))}
      </svg>
      <div aria-hidden="true" className="flex justify-between text-[12px] text-muted">
        <span>{times[0] !== undefined && clock.format(new Date(times[0]))}</span>
        <span>now</span>
      </div>
      <figcaption className="text-[13px] text-muted">{summary}</figcaption>
    </figure>
  )
}

function Legend({ series }: { readonly series: readonly Series[] }): ReactNode {
  return (
    <span className="flex flex-wrap gap-x-3">
      {series.map(({ name, kind, className }) => (
        <span key={name} className="inline-flex items-center gap-1">
          <svg viewBox="0 0 12 12" className="size-3" aria-hidden="true">
            {kind === 'area' ? (
              <rect width={12} height={12} rx={2} className={className} />
            ) : (
              <path d="M0 6H12" className={className} {...strokeOf(kind)} />
            )}
          </svg>
          {name}
        </span>
      ))}
    </span>
  )
}

const strokeOf = (kind: Series['kind']) =>
  kind === 'area'
    ? {}
    : {
        fill: 'none',
        strokeWidth: 2,
        vectorEffect: 'non-scaling-stroke' as const,
        ...(kind === 'limit' && { strokeDasharray: '5 3' }),
      }

/** Stacks each area on the previous areas, the highest first, so that the lower areas are drawn over it. */
function stacked(series: readonly Series[]): Series[] {
  const areas: Series[] = []
  for (const area of series.filter(({ kind }) => kind === 'area')) {
    const below = areas.at(-1)?.values ?? []
    areas.push({ ...area, values: area.values.map((value, at) => (value ?? 0) + (below[at] ?? 0)) })
  }
  return [...areas.reverse(), ...series.filter(({ kind }) => kind !== 'area')]
}

/** Draws each value over its whole step: an area from the ground, a line where neighbours are known. */
function pathOf(
  kind: Series['kind'],
  values: readonly (number | null)[],
  step: number,
  y: (value: number) => number,
): string {
  let path = ''
  for (const [index, value] of values.entries()) {
    if (value === null) continue
    const [from, to, at] = [index * step, (index + 1) * step, y(value)]
    if (kind === 'area') path += value > 0 ? `M${from} ${height}V${at}H${to}V${height}Z` : ''
    else path += `${(values[index - 1] ?? null) === null ? 'M' : 'L'}${from} ${at}H${to}`
  }
  return path
}

const valuesAt = (series: readonly Series[], index: number, format: (value: number) => string): string =>
  series
    .map(({ name, values }) => {
      const value = values[index] ?? null
      return `${name} ${value === null ? '–' : format(value)}`
    })
    .join(', ')

/** The labels name days if there are several. */
const clockOf = (stepSeconds: number) =>
  new Intl.DateTimeFormat('en', {
    ...(stepSeconds >= 600 && { day: 'numeric', month: 'short' }),
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  })
