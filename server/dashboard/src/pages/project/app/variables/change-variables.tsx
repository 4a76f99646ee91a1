import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import type { AppVariables } from '../../../../data/deployments.ts'
import { type VariableRow, variablesOf } from '../../../../data/variable-rows.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField } from '../../../../ui/forms/field.tsx'
import { Form, textOf } from '../../../../ui/forms/form.tsx'
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
  const change = useChange(
    app,
    (values: FormData) =>
      api.variables.update({
        params: paramsOf(app),
        body: { set: variablesOf(rows), kind: textOf(values, 'kind') === 'plain' ? 'plain' : 'secret' },
      }),
    onClose,
  )
  return (
    <Dialog
      open
      onClose={onClose}
      title={existing === undefined ? 'Add variables' : `Change ${existing.name}`}
      description="Nothing is deployed until you apply the change."
    >
      <Form mutation={change} submit="Save" onCancel={onClose}>
        <VariablesEditor variables={rows} onChange={setRows} field="set" />
        <SelectField
          label="Kind"
          name="kind"
          defaultValue={existing?.kind ?? 'secret'}
          hint="A secret value is never shown again, and masked in logs. A plain one can be read by everybody who may change it."
        >
          <option value="secret">Secret</option>
          <option value="plain">Plain</option>
        </SelectField>
      </Form>
    </Dialog>
  )
}
