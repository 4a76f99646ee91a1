import { ApiError } from '@fairlead/server/client'
import { CircleAlert, WifiOff } from 'lucide-react'
import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'

/** What a page or table says while it has nothing to show yet. */
export function Loading({ what }: { readonly what: string }) {
  return (
    <output className="block p-6 text-muted" aria-live="polite">
      Loading {what}…
    </output>
  )
}

const away = 'The server cannot be reached. Your connection may be away; what is shown is what was known last.'

/** An empty list: what belongs here and how the first one comes about. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="grid justify-items-center gap-2 px-6 py-10 text-center">
      <p className="font-medium">{title}</p>
      <div className="max-w-prose text-muted">{children}</div>
    </div>
  )
}

interface ProblemProps {
  readonly error: unknown
  readonly retry?: () => void
  /** What is said when no answer came. */
  readonly lost?: string
}

/** An error with its message, its field and its request id, and a way on. */
export function Problem({ error, retry, lost = away }: ProblemProps) {
  const offline = !(error instanceof ApiError)
  const field = error instanceof ApiError ? error.details.field : undefined
  const requestId = error instanceof ApiError ? error.requestId : undefined
  return (
    <div role="alert" className="flex items-start gap-3 rounded-md border border-bad/40 bg-bad-soft p-3 text-ink">
      <span className="mt-0.5 text-bad">{offline ? <WifiOff size={16} /> : <CircleAlert size={16} />}</span>
      <div className="min-w-0 flex-1">
        <p className="break-words">{error instanceof ApiError ? error.message : lost}</p>
        {(field !== undefined || requestId !== undefined) && (
          <p className="mt-1 text-[13px] text-muted">
            {field !== undefined && <>Field {field}. </>}
            {requestId !== undefined && (
              <>
                Request <code className="font-mono">{requestId}</code>
              </>
            )}
          </p>
        )}
      </div>
      {retry !== undefined && (
        <Button size="small" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  )
}
