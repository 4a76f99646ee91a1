/** A variable in the form that creates a deployment. */
export interface VariableRow {
  readonly name: string
  /** `null` keeps the current value, which only the server knows. */
  readonly value: string | null
  /** True when the app's latest release has this variable. */
  readonly existing: boolean
}

/** Returns a row for each variable of the latest release, with its value unchanged. */
export const unchangedRows = (names: readonly string[]): VariableRow[] =>
  names.map((name) => ({ name, value: null, existing: true }))

/** Returns the row with a typed value. Clearing the value of an existing variable leaves the variable unchanged. */
export function withValue(row: VariableRow, typed: string): VariableRow {
  return { ...row, value: typed === '' && row.existing ? null : typed }
}

/** Merges pasted variables into the rows. Pasted values win; rows without a name are removed. */
export function withPasted(rows: readonly VariableRow[], pasted: Readonly<Record<string, string>>): VariableRow[] {
  const merged = new Map(rows.map((row) => [row.name.trim(), row]))
  for (const [name, value] of Object.entries(pasted)) {
    merged.set(name, { name, value, existing: merged.get(name)?.existing ?? false })
  }
  merged.delete('')
  return [...merged.values()]
}

/** Returns the fields of the request: the given values, and the names of the variables that keep theirs. */
export function variablesBody(rows: readonly VariableRow[]): {
  env_vars: Record<string, string>
  keep_env_vars: string[]
} {
  const named = rows.map((row) => ({ ...row, name: row.name.trim() })).filter(({ name }) => name !== '')
  return {
    env_vars: Object.fromEntries(named.flatMap(({ name, value }) => (value === null ? [] : [[name, value]]))),
    keep_env_vars: named.flatMap(({ name, value }) => (value === null ? [name] : [])),
  }
}
