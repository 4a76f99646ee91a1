import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Loading, Problem } from './states.tsx'

interface Props<Data> {
  readonly query: UseQueryResult<Data>
  /** What is loaded, such as `projects`. */
  readonly what: string
  readonly children: (data: Data) => ReactNode
}

/** What was asked for: loading, wrong, or there. What is known stays while an error is told above it. */
export function Queried<Data>({ query, what, children }: Props<Data>) {
  return (
    <>
      {query.error !== null && (
        <div className="p-3">
          <Problem error={query.error} retry={() => void query.refetch()} />
        </div>
      )}
      {query.data !== undefined ? children(query.data) : query.error === null && <Loading what={what} />}
    </>
  )
}
