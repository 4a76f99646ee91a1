interface MeterProps {
  readonly label: string
  readonly value: number
  readonly most: number
  /** The value for people. */
  readonly text: string
}

/** How much of something limited is used. */
export function Meter({ label, value, most, text }: MeterProps) {
  const part = most <= 0 ? 0 : Math.min(1, value / most)
  const tone = part >= 1 ? 'fill-bad' : part >= 0.8 ? 'fill-warn' : 'fill-accent'
  return (
    <div className="grid gap-1">
      <div className="flex justify-between gap-4 text-[13px]">
        <span className="text-muted">{label}</span>
        <span>{text}</span>
      </div>
      <meter className="sr-only" aria-label={label} min={0} max={most} value={value}>
        {text}
      </meter>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" className="h-1.5 w-full rounded-full" aria-hidden="true">
        <rect width="100" height="4" className="fill-line" />
        <rect width={part * 100} height="4" className={tone} />
      </svg>
    </div>
  )
}
