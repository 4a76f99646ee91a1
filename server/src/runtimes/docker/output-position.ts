/*
 * A position in the output that the engine keeps of a container. The engine numbers nothing: it gives each frame, a line or a
 * part of a long one, a time, and lists frames from a time on. The times of frames that are next to each other may be in the
 * wrong order, because the two streams of a program are read at once. So a position is a time that was passed a while ago, and
 * the number of frames from that time on that were read: they are the first of those that the engine lists from it.
 */

export interface Mark {
  /** As the engine writes it, in nanoseconds: `2026-01-31T12:00:00.000000000Z`; empty for the beginning of the output. */
  readonly at: string
  /** How many frames of this time or a later one were read. */
  readonly frames: number
}

/** Oldest first. */
export type Position = readonly Mark[]

export const beginning: Position = [{ at: '', frames: 0 }]
/** A position of which nothing is known but that it is after all frames that were read. */
export const unknown: Position = []

/** Frames are written by the engine this long after their time at most. */
const disorderMs = 1_000
/** A clock that was set back by more gives later frames earlier times. */
const setBackMs = 10_000

/** Reads on from a position, one frame after the other. */
export interface PositionCounter {
  pass(at: string): void
  position(): Position
}

export function countFrom(start: Position): PositionCounter {
  let marks = start.map((mark) => ({ ...mark }))
  return {
    pass(at) {
      for (const mark of marks) if (mark.at <= at) mark.frames += 1
      const last = marks.at(-1)
      if (last !== undefined && ageOf(at, last.at) > setBackMs) marks = []
      if (last !== undefined && marks.length > 0 && ageOf(last.at, at) < disorderMs) return
      marks.push({ at, frames: 1 })
      // The oldest but one is old enough to begin with.
      if (marks.length > 2) marks.shift()
    },
    position: () => marks.map((mark) => ({ ...mark })),
  }
}

const ageOf = (from: string, to: string): number => Date.parse(to) - Date.parse(from)

/** Returns the time from which the engine lists frames, as it reads it: seconds and nanoseconds of Unix time. */
export function sinceOf([first]: Position): string | undefined {
  if (first === undefined || first.at === '') return undefined
  const nanoseconds = /\.(\d+)/.exec(first.at)?.[1] ?? '0'
  return `${Math.floor(Date.parse(first.at) / 1_000)}.${nanoseconds.padEnd(9, '0')}`
}

/**
 * Returns how many of the listed frames were read before. The first one listed is the one that made the mark, unless the
 * engine has removed it meanwhile to stay within its cap: then nothing of the rest was read, as far as is known.
 */
export const passedOf = ([first]: Position, firstListed: string): number =>
  first !== undefined && (first.at === '' || first.at === firstListed) ? first.frames : 0
