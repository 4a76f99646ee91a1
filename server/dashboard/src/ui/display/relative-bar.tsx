interface PartBarProps {
  readonly value: number
  /** The largest of the values that it is compared with. */
  readonly most: number
  /** The value for people. */
  readonly text: string
}

/** A value with a bar that compares it with those of its column. */
export function PartBar({ value, most, text }: PartBarProps) {
  return (
    <span className="flex items-center gap-2 whitespace-nowrap">
      <svg viewBox="0 0 60 4" preserveAspectRatio="none" className="h-1.5 w-16 rounded-full" aria-hidden="true">
        <rect width="60" height="4" className="fill-line" />
        <rect width={most <= 0 ? 0 : (value / most) * 60} height="4" className="fill-accent" />
      </svg>
      {text}
    </span>
  )
}
