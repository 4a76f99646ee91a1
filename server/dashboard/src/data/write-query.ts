import type { DataTag, QueryClient, QueryKey } from '@tanstack/react-query'

/**
 * Replaces the data of a query by the answer to a change. First aborts a read under way: it may have begun before the
 * change, and would bring the former state back.
 */
export async function writeQuery<Data, Failure>(
  queryClient: QueryClient,
  { queryKey }: { readonly queryKey: DataTag<QueryKey, Data, Failure> },
  data: Data | ((before: Data | undefined) => Data | undefined),
): Promise<void> {
  // Only this query: a query below it that is being read for the first time would wait for its next poll.
  await queryClient.cancelQueries({ queryKey, exact: true })
  queryClient.setQueryData<Data>(queryKey, data)
}
