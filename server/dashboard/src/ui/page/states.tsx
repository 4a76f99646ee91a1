import { ApiError } from '@fairlead/server/client'
import { CircleAlert, WifiOff } from 'lucide-react'
import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'
import { Skeleton } from './skeleton.tsx'

/** Shown while data loads for the first time. */
export function Loading({ label }: { readonly label: string }) {
  return (
    <output className="block p-6" aria-live="polite">
      <span className="sr-only">Loading {label}…</span>
      <Skeleton />
    </output>
  )
}

/** Shown in place of an empty list: explains the list and how to add the first entry. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="grid justify-items-center gap-2 px-6 py-10 text-center">
      <p className="font-medium">{title}</p>
      <div className="max-w-prose text-muted">{children}</div>
    </div>
  )
}

const unreachable = 'The server cannot be reached. Try again when it is back.'

interface ErrorAlertProps {
  readonly error: unknown
  readonly retry?: () => void
  /** The message when there was no response. */
  readonly networkMessage?: string
}

/** True for an error without an answer from the server. */
export const isUnreachable = (error: unknown): boolean => error != null && !(error instanceof ApiError)

/**
 * The error of a query. When the server is away, the notice at the top of the page says so, and the page continues
 * automatically.
 */
export function QueryError({ error, retry }: Pick<ErrorAlertProps, 'error' | 'retry'>) {
  if (error == null || isUnreachable(error)) return null
  return (
    <div className="p-3">
      <ErrorAlert error={error} {...(retry && { retry })} />
    </div>
  )
}

/** An error with its message, field and request id, and a button to try again. */
export function ErrorAlert({ error, retry, networkMessage = unreachable }: ErrorAlertProps) {
  const apiError = error instanceof ApiError ? error : undefined
  const field = apiError?.details.field
  const requestId = apiError?.requestId
  return (
    <div role="alert" className="flex items-start gap-3 rounded-md border border-bad/40 bg-bad-soft p-3 text-ink">
      <span className="mt-0.5 text-bad">
        {apiError === undefined ? <WifiOff size={16} /> : <CircleAlert size={16} />}
      </span>
      <div className="min-w-0 flex-1">
        <p className="break-words">{apiError?.message ?? networkMessage}</p>
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
