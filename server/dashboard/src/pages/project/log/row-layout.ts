import { plainText } from '../../../data/log/log-level.ts'

/** The rows of a log, which have the same height. A wrapped line takes several rows. */
export interface RowLayout {
  /** The number of rows of all lines. */
  readonly rows: number
  /** The first row of a line; for the index after the last line, the end. */
  row(index: number): number
  /** The line of a row. */
  lineAt(row: number): number
}

/** @param columns the characters of a row; `null` when lines are not wrapped */
export function layoutOf(count: number, textOf: (index: number) => string, columns: number | null): RowLayout {
  if (columns === null) return { rows: count, row: (index) => index, lineAt: (row) => row }
  const starts = new Uint32Array(count + 1)
  for (let index = 0; index < count; index += 1) {
    starts[index + 1] = (starts[index] ?? 0) + Math.max(1, Math.ceil(cellsOf(textOf(index)) / columns))
  }
  const row = (index: number): number => starts[Math.min(index, count)] ?? 0
  return {
    rows: row(count),
    row,
    lineAt(wanted) {
      let [low, high] = [0, count]
      while (low < high) {
        const middle = (low + high) >>> 1
        if (row(middle + 1) > wanted) high = middle
        else low = middle + 1
      }
      return low
    },
  }
}

const tabCells = 8

/** The cells of a fixed-width font that a text needs at most: two for a wide character. */
export function cellsOf(given: string): number {
  const text = plainText(given)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII without tabs.
  if (/^[\x00-\x08\x0a-\x7f]*$/.test(text)) return text.length
  let cells = 0
  for (const character of text) {
    if (character === '\t') cells += tabCells - (cells % tabCells)
    else cells += (character.codePointAt(0) ?? 0) < 0x1100 ? 1 : 2
  }
  return cells
}
