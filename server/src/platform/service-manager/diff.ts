/** Returns the lines of two texts that differ, in order: `-` for those of the first alone, `+` for those of the second. */
export function differingLines(before: string, after: string): string[] {
  const a = before.split('\n')
  const b = after.split('\n')
  const common = commonLengths(a, b)
  const lines: string[] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    const [inA, inB] = [a[i], b[j]]
    if (inA !== undefined && inA === inB) {
      i++
      j++
    } else if (inB === undefined || (inA !== undefined && at(common, i + 1, j) >= at(common, i, j + 1))) {
      lines.push(`- ${inA}`)
      i++
    } else {
      lines.push(`+ ${inB}`)
      j++
    }
  }
  return lines
}

/** The length of the longest common subsequence of what follows each pair of positions. */
function commonLengths(a: readonly string[], b: readonly string[]): number[][] {
  const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0))
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const length = a[i] === b[j] ? at(table, i + 1, j + 1) + 1 : Math.max(at(table, i + 1, j), at(table, i, j + 1))
      ;(table[i] as number[])[j] = length
    }
  }
  return table
}

const at = (table: readonly (readonly number[])[], i: number, j: number): number => table[i]?.[j] ?? 0
