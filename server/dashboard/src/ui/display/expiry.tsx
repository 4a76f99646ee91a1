import { useNow } from './time.tsx'

const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const dayMs = 86_400_000

/** With fewer days left, the expiry is near: the renewal is late. */
const fewDays = 10

/** An expiry: its date, and the remaining days. */
export function Expiry({ at }: { readonly at: string }) {
  const now = useNow(60_000)
  const end = new Date(at)
  const days = Math.floor((end.getTime() - now.getTime()) / dayMs)
  const tone = days < 0 ? 'text-bad' : days < fewDays ? 'text-warn' : 'text-muted'
  return (
    <span className="inline-flex flex-wrap gap-x-2">
      <time dateTime={at} className="whitespace-nowrap">
        {dateFormat.format(end)}
      </time>
      <span className={`whitespace-nowrap ${tone}`}>{textOf(days)}</span>
    </span>
  )
}

function textOf(days: number): string {
  if (days < 0) return 'expired'
  return days === 0 ? 'less than a day left' : `${days} ${days === 1 ? 'day' : 'days'} left`
}
