/*
 * Response times are counted by range. Four ranges make a factor of two: percentiles are accurate to within a fifth,
 * and counts of many processes and minutes can be added.
 */

const rangesPerOctave = 4
/** The last range holds everything above two minutes. */
const lastRange = 17 * rangesPerOctave

export const noTimes = (): number[] => Array.from({ length: lastRange + 1 }, () => 0)

/** Returns the range that contains a time. The first range ends at 1 ms. */
export function rangeOf(ms: number): number {
  return ms <= 1 ? 0 : Math.min(lastRange, Math.ceil(rangesPerOctave * Math.log2(ms)))
}

/** Returns the counts up to the last non-zero count. */
export function trimmed(counts: readonly number[]): number[] {
  return counts.slice(0, counts.findLastIndex((count) => count > 0) + 1)
}

export function addCounts(a: readonly number[], b: readonly number[]): number[] {
  const [long, short] = a.length >= b.length ? [a, b] : [b, a]
  return long.map((count, at) => count + (short[at] ?? 0))
}

/**
 * Returns the milliseconds within which a share of the answers came; `null` without answers. Assumes that answers are
 * spread evenly over their range.
 *
 * @param share such as 0.95
 */
export function quantileOf(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  let before = 0
  for (const [range, count] of counts.entries()) {
    if (before + count >= share * total && count > 0) {
      const [from, to] = [range === 0 ? 0 : 2 ** ((range - 1) / rangesPerOctave), 2 ** (range / rangesPerOctave)]
      return from + (to - from) * Math.min(1, Math.max(0, (share * total - before) / count))
    }
    before += count
  }
  return null
}
