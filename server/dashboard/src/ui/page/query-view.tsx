import type { ReactNode } from 'react'
import { isUnreachable, Loading, QueryError } from './states.tsx'

interface Props<Data> {
  readonly query: {
    readonly data: Data | undefined
    readonly error: unknown
    readonly refetch: () => Promise<unknown>
  }
  /** The name of the data, such as `projects`. */
  readonly label: string
  readonly children: (data: Data) => ReactNode
}

/** The result of a query: loading, an error, or the data. Data from before an error stays visible below it. */
export function QueryView<Data>({ query, label, children }: Props<Data>) {
  const { data, error } = query
  return (
    <>
      <QueryError error={error} retry={() => void query.refetch()} />
      {data !== undefined ? children(data) : (error === null || isUnreachable(error)) && <Loading label={label} />}
    </>
  )
}
