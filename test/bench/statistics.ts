/** Returns the quantile for `part` from 0 to 1, interpolated linearly between the two nearest values. */
export function quantile(values: readonly number[], part: number): number {
  if (values.length === 0) throw new Error('there are no values')
  const sorted = [...values].sort((a, b) => a - b)
  const position = part * (sorted.length - 1)
  const below = sorted[Math.floor(position)] ?? 0
  const above = sorted[Math.ceil(position)] ?? 0
  return below + (above - below) * (position - Math.floor(position))
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)
