import { WifiOff } from 'lucide-react'
import { useSyncExternalStore } from 'react'

/** A bar that says so while the browser is offline. */
export function Connection() {
  const online = useSyncExternalStore(subscribe, () => navigator.onLine)
  if (online) return null
  return (
    <output className="flex items-center justify-center gap-2 bg-warn-soft px-4 py-1.5 text-[13px] text-warn">
      <WifiOff size={14} aria-hidden="true" />
      You are offline. What is shown is what was known last.
    </output>
  )
}

function subscribe(changed: () => void): () => void {
  addEventListener('online', changed)
  addEventListener('offline', changed)
  return () => {
    removeEventListener('online', changed)
    removeEventListener('offline', changed)
  }
}
