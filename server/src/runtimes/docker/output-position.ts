/*
 * A position in the output that the engine keeps. The engine numbers nothing: it gives each frame (a line or a part of
 * a long line) a time, and lists frames from a time on. It reads a program's two streams in parallel, so adjacent
 * frames may have their times in the wrong order. Therefore a position is a time some way back, and the number of
 * frames read from then on: the first frames that the engine lists from this time.
 */

export interface Mark {
  /**
   * The time in the format of the engine, with nanoseconds: `2026-01-31T12:00:00.000000000Z`; empty for the beginning
   * of the output.
   */
  readonly at: string
  /** The number of frames read with this time or a later time. */
  readonly frames: number
}

/** Marks from oldest to newest. */
export type Position = readonly Mark[]

export const beginning: Position = [{ at: '', frames: 0 }]
/** An unknown position after all frames that were read. */
export const unknown: Position = []

/** The longest delay between the time of a frame and its write. */
const disorderMs = 1_000
/** If the clock was set back by more than this, later frames have earlier times. */
const setBackMs = 10_000

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
      // The second oldest mark is old enough for the start.
      if (marks.length > 2) marks.shift()
    },
    position: () => marks.map((mark) => ({ ...mark })),
  }
}

const ageOf = (from: string, to: string): number => Date.parse(to) - Date.parse(from)

/**
 * Returns the start time for a list of frames, in the input format of the engine: seconds and nanoseconds of Unix time.
 */
export function sinceOf([first]: Position): string | undefined {
  if (first === undefined || first.at === '') return undefined
  const nanoseconds = /\.(\d+)/.exec(first.at)?.[1] ?? '0'
  return `${Math.floor(Date.parse(first.at) / 1_000)}.${nanoseconds.padEnd(9, '0')}`
}

/**
 * Returns how many of the listed frames were read before. The first listed frame is the frame of the mark, unless the
 * engine has removed that frame to stay within its size limit. In this case all listed frames count as unread.
 */
export const passedOf = ([first]: Position, firstListed: string): number =>
  first !== undefined && (first.at === '' || first.at === firstListed) ? first.frames : 0
