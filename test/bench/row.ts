/** One line of the results. */
export interface Row {
  readonly name: string
  readonly measured: string
  /** The target value; absent when the figure has none. */
  readonly aim?: { readonly text: string; readonly met: boolean }
}

export interface BenchResult {
  readonly rows: readonly Row[]
  /** Lines that explain the figures and how they were measured. */
  readonly notes: readonly string[]
}

/** One run of a benchmark. */
export interface Run {
  /** Aborts at the deadline of the benchmark, and when the user interrupts it. */
  readonly signal: AbortSignal
  /** True for one short round, which shows that the benchmark works; its figures mean nothing. */
  readonly short: boolean
}

/** Runs a benchmark and cleans up. Rejects after an error, and with the signal's reason when that aborts. */
export type Bench = (run: Run) => Promise<BenchResult>

/** Formats the rows as a table with a heading. */
export function table(rows: readonly Row[]): string {
  const lines = rows.map(({ name, measured, aim }) => [
    name,
    measured,
    aim?.text ?? '-',
    aim === undefined ? '-' : aim.met ? 'ok' : 'not',
  ])
  return columns([['row', 'measured', 'aim', 'ok'], ...lines])
}

/** Formats lines of cells with each column as wide as its longest cell. */
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
