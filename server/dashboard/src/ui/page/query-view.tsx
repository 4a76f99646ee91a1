import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ErrorAlert, Loading } from './states.tsx'

interface Props<Data> {
  readonly query: UseQueryResult<Data>
  /** The name of the data, such as `projects`. */
  readonly label: string
  readonly children: (data: Data) => ReactNode
}

/** The result of a query: loading, an error, or the data. Data from before an error stays visible below it. */
export function QueryView<Data>({ query, label, children }: Props<Data>) {
  return (
    <>
      {query.error !== null && (
        <div className="p-3">
          <ErrorAlert error={query.error} retry={() => void query.refetch()} />
        </div>
      )}
      {query.data !== undefined ? children(query.data) : query.error === null && <Loading label={label} />}
    </>
  )
}
