import type { InfiniteData, UseInfiniteQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { LoadMore } from './load-more.tsx'
import { QueryView } from './query-view.tsx'

interface Props<Page> {
  readonly query: UseInfiniteQueryResult<InfiniteData<Page>>
  /** The name of the entries, such as `deployments`. */
  readonly label: string
  readonly children: (pages: readonly Page[]) => ReactNode
}

/** A list in pages: the loaded pages, and a button for the next page. */
export function PagedView<Page>({ query, label, children }: Props<Page>) {
  return (
    <>
      <QueryView query={query} label={label}>
        {({ pages }) => children(pages)}
      </QueryView>
      {query.hasNextPage && (
        <LoadMore
          label={`Show older ${label}`}
          busy={query.isFetchingNextPage}
          onClick={() => void query.fetchNextPage()}
        />
      )}
    </>
  )
}
