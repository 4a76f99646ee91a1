import { WifiOff } from 'lucide-react'
import { useSyncExternalStore } from 'react'

/** A bar that is shown while the browser is offline. */
export function OfflineNotice() {
  const online = useSyncExternalStore(subscribe, () => navigator.onLine)
  if (online) return null
  return (
    <output className="flex items-center justify-center gap-2 bg-warn-soft px-4 py-1.5 text-[13px] text-warn">
      <WifiOff size={14} aria-hidden="true" />
      You are offline. The page shows the last known state.
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
