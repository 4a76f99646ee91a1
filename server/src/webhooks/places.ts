/** A number of places, and who waits for one. */
export interface Places<Who> {
  /** Takes a place if there is one; otherwise `who` waits in line, once. */
  take(who: Who): boolean
  release(): void
  /** Whoever has waited longest, if there is a place to take. */
  next(): Who | undefined
}

export function createPlaces<Who>(count: number): Places<Who> {
  const line = new Set<Who>()
  let free = count
  return {
    take(who) {
      if (free === 0) {
        line.add(who)
        return false
      }
      free--
      return true
    },
    release() {
      free++
    },
    next() {
      const [first] = free === 0 ? [] : line
      if (first !== undefined) line.delete(first)
      return first
    },
  }
}
