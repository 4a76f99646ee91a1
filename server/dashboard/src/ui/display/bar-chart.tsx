interface Bar {
  readonly key: string
  readonly label: string
  /** Stacked from below, in the order of the series. */
  readonly values: readonly number[]
}

interface BarChartProps {
  /** What the chart shows, in a sentence: its text equivalent. */
  readonly summary: string
  readonly series: readonly { readonly name: string; readonly className: string }[]
  readonly bars: readonly Bar[]
}

const height = 64
const gap = 1
/** Fewer bars than this stand at the right, as wide as these would be. */
const leastSlots = 14

/** A small stacked bar chart, drawn as SVG; its summary says the same in words, each bar its numbers on hover. */
export function BarChart({ summary, series, bars }: BarChartProps) {
  const totals = bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0))
  const most = Math.max(1, ...totals)
  const slots = Math.max(leastSlots, bars.length)
  const width = slots * 8
  const left = (index: number) => (slots - bars.length + index) * 8
  return (
    <figure className="grid gap-1.5">
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        className="h-16 w-full"
        role="img"
        aria-label={summary}
      >
        {bars.map((bar, index) => (
          <g key={bar.key}>
            <title>
              {`${bar.label}: ${series.map(({ name }, at) => `${bar.values[at] ?? 0} ${name}`).join(', ')}`}
            </title>
            <rect x={left(index)} y={0} width={8 - gap} height={height} fill="transparent" />
            <rect x={left(index)} y={height - 1} width={8 - gap} height={1} className="fill-line" />
            {stack(bar.values, most).map(({ from, size, at }) => (
              <rect
                key={series[at]?.name}
                x={left(index)}
                y={height - from - size}
                width={8 - gap}
                height={size}
                className={series[at]?.className}
              />
            ))}
          </g>
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

/** Where each value of a stacked bar begins and how high it is; what is not nothing is at least a line. */
export function stack(values: readonly number[], most: number): { from: number; size: number; at: number }[] {
  let from = 0
  return values.flatMap((value, at) => {
    if (value <= 0) return []
    const size = Math.max(1, (value / most) * height)
    const part = { from, size, at }
    from += size
    return [part]
  })
}
