import type { AppVariables } from '../../../../data/deployments.ts'
import { changedRows, type VariableRow, variablesOf } from '../../../../data/variable-rows.ts'
import { fieldProblem } from '../../../../ui/forms/values.ts'

type Variable = AppVariables['variables'][number]

interface VariablesForm {
  readonly rows: readonly VariableRow[]
  /** The rows with which the form began. */
  readonly initial: readonly VariableRow[]
  /** The variable that the form was opened to change, as it was then; `undefined` for a form that adds variables. */
  readonly opened: Variable | undefined
  /** The same variable as the server has it now; `undefined` when it was removed. */
  readonly present: Variable | undefined
  /** The kind that the user has chosen; `undefined` for the kind of the opened variable. */
  readonly kind: Variable['kind'] | undefined
}

/**
 * Returns the request that saves a form of variables. All variables in it get the kind in the form, also variables that
 * have another kind in the app. Throws an `ApiError` when the opened variable cannot be saved as the form shows it.
 */
export function variableChange({ rows, initial, opened, present, kind }: VariablesForm) {
  const changed = changedRows(rows, initial)
  const again = opened === undefined || kind === undefined ? [] : untouchedRow(rows, changed, opened, present)
  return { set: variablesOf([...changed, ...again]), kind: kind ?? opened?.kind ?? 'secret' }
}

/** A kind is set together with a value: when only the kind has changed, with the current value. */
function untouchedRow(
  rows: readonly VariableRow[],
  changed: readonly VariableRow[],
  { name, updated_at }: Variable,
  present: Variable | undefined,
): VariableRow[] {
  const has = (some: readonly VariableRow[]) => some.some((row) => row.name.trim() === name)
  if (!has(rows) || has(changed)) return []
  const problem = (message: string) => fieldProblem(`set.${name}`, message)
  if (present === undefined) throw problem('This variable was removed elsewhere since you began.')
  if (present.updated_at !== updated_at)
    throw problem('This variable was changed elsewhere since you began. Close this form and open it again.')
  if (present.value === null) throw problem('Write the value, too: a secret one cannot be read again.')
  return [{ name, value: present.value }]
}
