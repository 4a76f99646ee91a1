interface MeterProps {
  readonly label: string
  readonly value: number
  readonly max: number
  /** The value as text. */
  readonly text: string
  /** True for the progress of work, where 100 % is good. */
  readonly progress?: boolean
}

/** Shows how much of a limit is used: a warning from 80 % on, an error at 100 %. Or the progress of work. */
export function Meter({ label, value, max, text, progress = false }: MeterProps) {
  const fraction = max <= 0 ? 0 : Math.min(1, value / max)
  const tone = progress || fraction < 0.8 ? 'fill-accent' : fraction < 1 ? 'fill-warn' : 'fill-bad'
  const Bar = progress ? 'progress' : 'meter'
  return (
    <div className="grid gap-1">
      <div className="flex justify-between gap-4 text-[13px]">
        <span className="text-muted">{label}</span>
        <span>{text}</span>
      </div>
      <Bar className="sr-only" aria-label={label} max={max} value={value}>
        {text}
      </Bar>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" className="h-1.5 w-full rounded-full" aria-hidden="true">
        <rect width="100" height="4" className="fill-line" />
        <rect width={fraction * 100} height="4" className={tone} />
      </svg>
    </div>
  )
}
