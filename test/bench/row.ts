/** One line of the result. */
export interface Row {
  readonly name: string
  readonly measured: string
  /** What the project wants; absent where a figure is only watched. */
  readonly aim?: { readonly text: string; readonly met: boolean }
}

export interface BenchResult {
  readonly rows: readonly Row[]
  /** What the figures mean and how they came about, a line each. */
  readonly notes: readonly string[]
}

/** Measures; rejects when something broke, and with the signal's reason when that aborts. Leaves nothing behind. */
export type Bench = (signal: AbortSignal) => Promise<BenchResult>

/** The rows under a heading, each column as wide as its longest cell. */
export function table(rows: readonly Row[]): string {
  const lines = rows.map(({ name, measured, aim }) => [
    name,
    measured,
    aim?.text ?? '-',
    aim === undefined ? '-' : aim.met ? 'ok' : 'not',
  ])
  return columns([['row', 'measured', 'aim', 'ok'], ...lines])
}

/** Lines of cells, aligned. */
export function columns(lines: readonly (readonly string[])[]): string {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
