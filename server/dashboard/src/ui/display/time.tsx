import { useEffect, useState } from 'react'

const units = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const

const relativeFormat = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'long' })
const exactFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

/** Formats a time relative to `now`, such as `3 minutes ago`; `just now` under a minute. */
function formatRelative(at: Date, now: Date): string {
  const seconds = Math.round((at.getTime() - now.getTime()) / 1000)
  for (const [unit, size] of units) {
    // Past times count whole units. Future times are rounded, so that a term of 90 days reads "in 3 months" at once.
    if (Math.abs(seconds) >= size) {
      return relativeFormat.format(seconds < 0 ? Math.trunc(seconds / size) : Math.round(seconds / size), unit)
    }
  }
  return seconds > 0 ? 'in a moment' : 'just now'
}

/** Formats a duration, such as `1 m 12 s`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} m`
}

/** Formats a duration that may be short, such as `0.4 s`. */
export const formatShortDuration = (ms: number): string =>
  ms < 10_000 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : formatDuration(ms)

/** Returns the current time, updated every `stepMs` milliseconds. */
export function useNow(stepMs: number): Date {
  const [now, setNow] = useState(() => new Date())
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), stepMs)
    return () => clearInterval(timer)
  }, [stepMs])
  return now
}

/** A relative time, with the exact time on hover. */
export function Time({ at }: { readonly at: string }) {
  const now = useNow(30_000)
  const date = new Date(at)
  return (
    <time dateTime={at} title={exactFormat.format(date)} className="whitespace-nowrap">
      {formatRelative(date, now)}
    </time>
  )
}

/** The exact time in a time zone. */
export function ExactTime({ at, timezone }: { readonly at: string; readonly timezone: string }) {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short', timeZone: timezone })
  return <time dateTime={at}>{format.format(new Date(at))}</time>
}
