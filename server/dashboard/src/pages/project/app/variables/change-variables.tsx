import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import type { AppVariables } from '../../../../data/deployments.ts'
import { changedRows, type VariableRow, variablesOf } from '../../../../data/variable-rows.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { fieldProblem, textOf } from '../../../../ui/forms/values.ts'
import { VariablesEditor } from '../../deployments/variables-editor.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { useChange } from './use-change.ts'

interface ChangeVariablesProps {
  readonly app: AppOfPage
  readonly state: AppVariables
  /** The variables with which the form starts. */
  readonly initial: readonly VariableRow[]
  readonly onClose: () => void
}

/** Adds variables to an app, and changes those that it has. */
export function ChangeVariables({ app, state, initial, onClose }: ChangeVariablesProps) {
  const [rows, setRows] = useState(initial)
  const existing = state.variables.find(({ name }) => name === initial[0]?.name)
  const [opened] = useState(existing)
  const changed = changedRows(rows, initial)
  const change = useChange(
    app,
    async (values: FormData) => {
      const kind = values.has('kind') && ({ kind: textOf(values, 'kind') === 'plain' ? 'plain' : 'secret' } as const)
      const again = kind && existing !== undefined ? untouchedRow(rows, changed, existing) : []
      return api.variables.update({
        params: paramsOf(app),
        body: { set: variablesOf([...changed, ...again]), ...kind },
      })
    },
    onClose,
  )
  return (
    <Dialog
      open
      onClose={onClose}
      title={opened === undefined ? 'Add variables' : `Change ${opened.name}`}
      description="Nothing is deployed until you apply the change."
    >
      <Form
        mutation={change}
        saved={opened && { kind: existing?.kind ?? opened.kind }}
        alsoChanged={changed.length > 0}
        submit="Save"
        onCancel={onClose}
      >
        <VariablesEditor variables={rows} onChange={setRows} field="set" />
        {opened?.kind === 'secret' && (
          <p className="text-[13px] text-muted">A secret value is not shown. It stays unless you write a new one.</p>
        )}
        {opened?.updated_at !== existing?.updated_at && (
          <output className="text-[13px] text-muted">{opened?.name} was changed elsewhere since you began.</output>
        )}
        <SelectField
          label="Kind"
          name="kind"
          defaultValue="secret"
          hint="A secret value is never shown again, and masked in logs. A plain one can be read by everybody who may change it."
        >
          <option value="secret">Secret</option>
          <option value="plain">Plain</option>
        </SelectField>
      </Form>
    </Dialog>
  )
}

/** A kind is set together with a value: for a variable of which only the kind was changed, that is the present one. */
function untouchedRow(
  rows: readonly VariableRow[],
  changed: readonly VariableRow[],
  { name, value }: AppVariables['variables'][number],
): VariableRow[] {
  const has = (some: readonly VariableRow[]) => some.some((row) => row.name.trim() === name)
  if (!has(rows) || has(changed)) return []
  if (value === null) throw fieldProblem(`set.${name}`, 'Write the value, too: a secret one cannot be read again.')
  return [{ name, value }]
}
