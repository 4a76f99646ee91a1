interface Bar {
  readonly key: string
  readonly label: string
  /** One value for each series, stacked from the bottom in the order of the series. */
  readonly values: readonly number[]
}

interface BarChartProps {
  /** The data as a sentence: the chart's text alternative. */
  readonly summary: string
  readonly series: readonly Series[]
  readonly bars: readonly Bar[]
}

interface Series {
  readonly name: string
  readonly className: string
}

const height = 64
const slotWidth = 8
const gap = 1
/** A chart with fewer bars than this keeps their width and aligns them to the right. */
const minSlots = 14

/** A small stacked bar chart in SVG. Its summary gives the data in words; each bar shows its numbers on hover. */
export function BarChart({ summary, series, bars }: BarChartProps) {
  const max = Math.max(1, ...bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0)))
  const slots = Math.max(minSlots, bars.length)
  return (
    <figure className="grid gap-1.5">
      <svg
        viewBox={`0 0 ${slots * slotWidth} ${height}`}
        preserveAspectRatio="none"
        className="h-16 w-full"
        role="img"
        aria-label={summary}
      >
        {bars.map((bar, index) => (
          <StackedBar
            key={bar.key}
            bar={bar}
            series={series}
            x={(slots - bars.length + index) * slotWidth}
            segments={stack(bar.values, max)}
          />
        ))}
      </svg>
      <div aria-hidden="true" className="flex justify-between text-[12px] text-muted">
        <span>{bars.length === slots && bars[0]?.label}</span>
        <span>{bars.at(-1)?.label}</span>
      </div>
      <figcaption className="text-[13px] text-muted">{summary}</figcaption>
    </figure>
  )
}

interface StackedBarProps {
  readonly bar: Bar
  readonly series: readonly Series[]
  readonly x: number
  readonly segments: readonly Segment[]
}

function StackedBar({ bar, series, x, segments }: StackedBarProps) {
  const width = slotWidth - gap
  return (
    <g>
      <title>{`${bar.label}: ${series.map(({ name }, index) => `${bar.values[index] ?? 0} ${name}`).join(', ')}`}</title>
      <rect x={x} y={0} width={width} height={height} fill="transparent" />
      <rect x={x} y={height - 1} width={width} height={1} className="fill-line" />
      {segments.map(({ from, size, seriesIndex }) => (
        <rect
          key={series[seriesIndex]?.name}
          x={x}
          y={height - from - size}
          width={width}
          height={size}
          className={series[seriesIndex]?.className}
        />
      ))}
    </g>
  )
}

interface Segment {
  readonly from: number
  readonly size: number
  readonly seriesIndex: number
}

/** Returns the position and height of each segment of a stacked bar. A value above zero is at least one unit high. */
function stack(values: readonly number[], max: number): Segment[] {
  let from = 0
  return values.flatMap((value, seriesIndex) => {
    if (value <= 0) return []
    const size = Math.max(1, (value / max) * height)
    const segment = { from, size, seriesIndex }
    from += size
    return [segment]
  })
}
