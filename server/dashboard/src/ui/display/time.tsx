import { useEffect, useState } from 'react'

const units = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'long' })
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

/** Such as `3 minutes ago`; under a minute `just now`. */
export function ago(at: Date, now: Date): string {
  const seconds = Math.round((at.getTime() - now.getTime()) / 1000)
  for (const [unit, size] of units) {
    // What is past is counted in whole units; what is to come is rounded, so that 90 days are 3 months from the first.
    if (Math.abs(seconds) >= size) {
      return relative.format(seconds < 0 ? Math.trunc(seconds / size) : Math.round(seconds / size), unit)
    }
  }
  return seconds > 0 ? 'in a moment' : 'just now'
}

/** Such as `1 m 12 s`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} m`
}

/** The time that goes on, to the given step. */
export function useNow(stepMs: number): Date {
  const [now, setNow] = useState(() => new Date())
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), stepMs)
    return () => clearInterval(timer)
  }, [stepMs])
  return now
}

/** A time as people say it, with the exact one on hover. */
export function Time({ at }: { readonly at: string }) {
  const now = useNow(30_000)
  const date = new Date(at)
  return (
    <time dateTime={at} title={exact.format(date)} className="whitespace-nowrap">
      {ago(date, now)}
    </time>
  )
}
