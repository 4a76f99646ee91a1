import type { Variable } from './dotenv.ts'

/** A variable in the form of a deployment. */
export interface VariableRow {
  readonly name: string
  /** `null` for one that stays as it is: the server alone knows its value. */
  readonly value: string | null
  /** Whether the release before has it. */
  readonly known: boolean
}

/** A row for each variable of the release before, unchanged. */
export const knownRows = (names: readonly string[]): VariableRow[] =>
  names.map((name) => ({ name, value: null, known: true }))

/** With a value that was typed; what of a known variable is deleted again leaves it unchanged. */
export function withValue(row: VariableRow, typed: string): VariableRow {
  return { ...row, value: typed === '' && row.known ? null : typed }
}

/** Pasted values win over those at hand; rows without a name go. */
export function withPasted(rows: readonly VariableRow[], pasted: readonly Variable[]): VariableRow[] {
  const all = new Map(rows.map((row) => [row.name.trim(), row]))
  for (const { name, value } of pasted) all.set(name, { name, value, known: all.get(name)?.known ?? false })
  all.delete('')
  return [...all.values()]
}

/** What is sent: values that are given, and the names of those that stay. */
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
