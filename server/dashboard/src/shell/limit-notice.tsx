import { Hourglass } from 'lucide-react'
import { useSyncExternalStore } from 'react'
import { limitEnd, onLimitChange } from '../data/rate-limit.ts'

/** A bar that is shown while the account has no requests of the dashboard left. The page continues automatically. */
export function LimitNotice() {
  const end = useSyncExternalStore(onLimitChange, limitEnd)
  if (end === undefined) return null
  return (
    <output className="flex items-center justify-center gap-2 bg-warn-soft px-4 py-1.5 text-[13px] text-warn">
      <Hourglass size={14} aria-hidden="true" />
      This account has used the dashboard's requests of this hour. The page goes on at{' '}
      {end.toLocaleTimeString('en', { hour: '2-digit', minute: '2-digit', hour12: false })}.
    </output>
  )
}
