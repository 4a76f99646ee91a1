interface RelativeBarProps {
  readonly value: number
  /** The largest value in the column. */
  readonly max: number
  /** The value as text. */
  readonly text: string
}

/** A value with a bar that compares it with the largest value in its column. */
export function RelativeBar({ value, max, text }: RelativeBarProps) {
  return (
    <span className="flex items-center gap-2 whitespace-nowrap">
      <svg viewBox="0 0 60 4" preserveAspectRatio="none" className="h-1.5 w-16 rounded-full" aria-hidden="true">
        <rect width="60" height="4" className="fill-line" />
        <rect width={max <= 0 ? 0 : (value / max) * 60} height="4" className="fill-accent" />
      </svg>
      {text}
    </span>
  )
}
