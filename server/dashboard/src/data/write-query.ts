import type { DataTag, QueryClient, QueryKey } from '@tanstack/react-query'

/**
 * Puts the answer to a change in place of what a query has read. A read that is under way may have begun before the change, so
 * it is given up first: it would bring the former state back.
 */
export async function writeQuery<Data, Failure>(
  queryClient: QueryClient,
  { queryKey }: { readonly queryKey: DataTag<QueryKey, Data, Failure> },
  data: Data | ((before: Data | undefined) => Data | undefined),
): Promise<void> {
  // Only this query: one below it that is read for the first time would wait for its next poll.
  await queryClient.cancelQueries({ queryKey, exact: true })
  queryClient.setQueryData<Data>(queryKey, data)
}
