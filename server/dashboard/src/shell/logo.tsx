export function Logo() {
  return (
    <svg viewBox="0 0 32 32" className="size-6" aria-hidden="true">
      <rect width="32" height="32" rx="8" className="fill-accent" />
      <circle cx="16" cy="16" r="7" fill="none" strokeWidth="3" className="stroke-accent-ink" />
      <path
        d="M3 22c5 0 6-6 13-6s8 6 13 6"
        fill="none"
        strokeWidth="2.5"
        strokeLinecap="round"
        className="stroke-accent-ink"
      />
    </svg>
  )
}
