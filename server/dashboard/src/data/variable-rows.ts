/** A variable in a form. */
export interface VariableRow {
  readonly name: string
  readonly value: string
}

/** Merges pasted variables into the rows. Pasted values win; rows without a name are removed. */
export function withPasted(rows: readonly VariableRow[], pasted: Readonly<Record<string, string>>): VariableRow[] {
  const merged = new Map(rows.map((row) => [row.name.trim(), row]))
  for (const [name, value] of Object.entries(pasted)) merged.set(name, { name, value })
  merged.delete('')
  return [...merged.values()]
}

/** Returns the variables in the form of a request, without rows that have no name. */
export function variablesOf(rows: readonly VariableRow[]): Record<string, string> {
  return Object.fromEntries(
    rows.map(({ name, value }) => [name.trim(), value] as const).filter(([name]) => name !== ''),
  )
}

/** Returns the rows that differ from all rows with which a form began. */
export function changedRows(rows: readonly VariableRow[], initial: readonly VariableRow[]): VariableRow[] {
  return rows.filter(({ name, value }) => !initial.some((row) => row.name === name.trim() && row.value === value))
}
