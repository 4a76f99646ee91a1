import { QueryClient, QueryObserver, queryOptions } from '@tanstack/react-query'
import { expect, it } from 'vitest'
import { writeQuery } from '../../../server/dashboard/src/data/write-query.ts'

/** A query that a page shows. The test decides when its reads are answered. */
function shownQuery() {
  const client = new QueryClient()
  const reads: { readonly answer: (names: readonly string[]) => void; readonly signal: AbortSignal }[] = []
  const query = queryOptions({
    queryKey: ['variables'],
    queryFn: ({ signal }) => new Promise<readonly string[]>((resolve) => void reads.push({ answer: resolve, signal })),
  })
  const observer = new QueryObserver(client, query)
  const unsubscribe = observer.subscribe(() => undefined)
  return {
    client,
    query,
    reads,
    observer,
    shown: () => observer.getCurrentResult().data,
    [Symbol.dispose]: () => {
      unsubscribe()
      client.clear()
    },
  }
}

it('a read that began before a change does not restore the old state', async () => {
  using page = shownQuery()
  page.reads[0]?.answer(['OLD'])
  await expect.poll(page.shown).toEqual(['OLD'])
  const poll = page.observer.refetch()

  await writeQuery(page.client, page.query, ['OLD', 'NEW'])
  expect(page.shown()).toEqual(['OLD', 'NEW'])
  expect(page.reads[1]?.signal.aborted).toBe(true)
  page.reads[1]?.answer(['OLD'])
  await poll
  expect(page.shown()).toEqual(['OLD', 'NEW'])

  const next = page.observer.refetch()
  page.reads[2]?.answer(['OLD', 'NEW', 'NEWER'])
  await next
  expect(page.shown()).toEqual(['OLD', 'NEW', 'NEWER'])
})

it('the response to a change stays when the first read of a query ends after it', async () => {
  using page = shownQuery()
  const first = page.client.fetchQuery(page.query).catch(() => undefined)
  await writeQuery(page.client, page.query, (before) => [...(before ?? []), 'NEW'])
  page.reads[0]?.answer([])
  await first
  expect(page.shown()).toEqual(['NEW'])
})
