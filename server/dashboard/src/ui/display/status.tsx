const tones = {
  good: 'bg-good-soft text-good',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
  busy: 'bg-accent-soft text-accent',
  quiet: 'bg-line/60 text-muted',
} as const

type Tone = keyof typeof tones

/** The tone of every state of every resource. */
const toneOf: Readonly<Record<string, Tone>> = {
  active: 'good',
  valid: 'good',
  running: 'good',
  available: 'good',
  enabled: 'good',
  succeeded: 'good',
  building: 'busy',
  provisioning: 'busy',
  pending: 'busy',
  starting: 'busy',
  waiting: 'busy',
  failed: 'bad',
  ended: 'bad',
  deleting: 'warn',
  failing: 'warn',
  expired: 'bad',
  revoked: 'quiet',
  disabled: 'warn',
  canceled: 'quiet',
  stopped: 'quiet',
  superseded: 'quiet',
  skipped: 'quiet',
}

/** A state as a coloured word. The colour adds no information. */
export function Status({ value }: { readonly value: string }) {
  const tone = toneOf[value] ?? 'quiet'
  return (
    <span
      className={`inline-flex items-center gap-1.5 rounded-full px-2 py-0.5 font-medium text-[12px] ${tones[tone]}`}
    >
      <span
        aria-hidden="true"
        className={`size-1.5 rounded-full bg-current ${tone === 'busy' ? 'motion-safe:animate-pulse' : ''}`}
      />
      {value}
    </span>
  )
}
