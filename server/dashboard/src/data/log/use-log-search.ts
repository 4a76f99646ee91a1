import { useEffect, useState } from 'react'
import { type Hit, type Lines, type Search, searchOn } from './log-search.ts'

/** Few enough not to be noticed. */
const linesAtOnce = 4_000

/** Searches a log, however long, in pieces between which the page goes on, and goes on itself as the log grows. */
export function useSearch(log: Lines, wanted: string): { hits: readonly Hit[]; done: boolean } {
  const text = wanted.toLowerCase()
  const [search, setSearch] = useState<Search>({ text, next: 0, hits: [] })
  const current = search.text === text ? search : { text, next: 0, hits: [] }
  const done = text === '' || current.next >= log.first + log.lines.length
  useEffect(() => {
    if (done) return
    const timer = setTimeout(() => setSearch(searchOn(current, log, linesAtOnce)))
    return () => clearTimeout(timer)
  })
  return { hits: current.hits, done }
}
