import { WifiOff } from 'lucide-react'
import { useSyncExternalStore } from 'react'
import { isReachable, onReachabilityChange } from '../data/reachability.ts'

/** A bar that is shown while the browser is offline or the server is away. The page continues automatically. */
export function OfflineNotice() {
  const online = useSyncExternalStore(subscribe, () => navigator.onLine)
  const reachable = useSyncExternalStore(onReachabilityChange, isReachable)
  if (online && reachable) return null
  return (
    <output className="flex items-center justify-center gap-2 bg-warn-soft px-4 py-1.5 text-[13px] text-warn">
      <WifiOff size={14} className="shrink-0" aria-hidden="true" />
      {online ? 'The server cannot be reached.' : 'You are offline.'} The page shows the last known state, and goes on
      by itself.
    </output>
  )
}

function subscribe(onChange: () => void): () => void {
  addEventListener('online', onChange)
  addEventListener('offline', onChange)
  return () => {
    removeEventListener('online', onChange)
    removeEventListener('offline', onChange)
  }
}
