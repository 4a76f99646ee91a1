import { useEffect, useState } from 'react'
import { continueSearch, isFiltering, type Lines, type LogFilter, type Match, type Search } from './log-search.ts'

/** Small enough that searching a batch causes no visible delay. */
const linesPerBatch = 4_000

/**
 * Searches a log of any length in batches, so that the page stays responsive, and continues as the log grows.
 *
 * @param filter the same object as long as the conditions are the same
 */
export function useLogSearch(log: Lines, filter: LogFilter): { matches: readonly Match[]; done: boolean } {
  const [search, setSearch] = useState<Search>({ filter, next: 0, matches: [] })
  const current = search.filter === filter ? search : { filter, next: 0, matches: [] }
  const done = !isFiltering(filter) || current.next >= log.first + log.lines.length
  useEffect(() => {
    if (done) return
    const timer = setTimeout(() => setSearch(continueSearch(current, log, linesPerBatch)))
    return () => clearTimeout(timer)
  })
  return { matches: current.matches, done }
}
