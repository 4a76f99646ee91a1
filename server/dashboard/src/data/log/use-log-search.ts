import { useEffect, useState } from 'react'
import { continueSearch, type Lines, type Match, type Search } from './log-search.ts'

/** Small enough that searching a batch causes no visible delay. */
const linesPerBatch = 4_000

/** Searches a log of any length in batches, so that the page stays responsive, and continues as the log grows. */
export function useLogSearch(log: Lines, query: string): { matches: readonly Match[]; done: boolean } {
  const text = query.toLowerCase()
  const [search, setSearch] = useState<Search>({ text, next: 0, matches: [] })
  const current = search.text === text ? search : { text, next: 0, matches: [] }
  const done = text === '' || current.next >= log.first + log.lines.length
  useEffect(() => {
    if (done) return
    const timer = setTimeout(() => setSearch(continueSearch(current, log, linesPerBatch)))
    return () => clearTimeout(timer)
  })
  return { matches: current.matches, done }
}
