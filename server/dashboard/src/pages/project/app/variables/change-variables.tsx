import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import type { AppVariables } from '../../../../data/deployments.ts'
import { changedRows, type VariableRow } from '../../../../data/variable-rows.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { textOf } from '../../../../ui/forms/values.ts'
import { VariablesEditor } from '../../deployments/variables-editor.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { useChange } from './use-change.ts'
import { variableChange } from './variable-change.ts'

interface ChangeVariablesProps {
  readonly app: AppOfPage
  readonly state: AppVariables
  /** The variables with which the form starts. */
  readonly initial: readonly VariableRow[]
  readonly onClose: () => void
}

/** Adds and changes variables of an app. */
export function ChangeVariables({ app, state, initial, onClose }: ChangeVariablesProps) {
  const [rows, setRows] = useState(initial)
  const present = state.variables.find(({ name }) => name === initial[0]?.name)
  const [opened] = useState(present)
  const change = useChange(
    app,
    async (values: FormData) => {
      const chosen = textOf(values, 'kind') === 'plain' ? 'plain' : 'secret'
      const kind = values.has('kind') ? chosen : undefined
      const body = variableChange({ rows, initial, opened, present, kind })
      return api.variables.update({ params: paramsOf(app), body })
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
        saved={opened && { kind: opened.kind }}
        alsoChanged={changedRows(rows, initial).length > 0}
        submit="Save"
        onCancel={onClose}
      >
        <VariablesEditor variables={rows} onChange={setRows} field="set" />
        {opened?.kind === 'secret' && (
          <p className="text-[13px] text-muted">A secret value is not shown. It stays unless you write a new one.</p>
        )}
        {opened?.updated_at !== present?.updated_at && (
          <output className="text-[13px] text-muted">{opened?.name} was changed elsewhere since you began.</output>
        )}
        <SelectField
          label="Kind"
          name="kind"
          defaultValue="secret"
          hint="A secret value is never shown again, and masked in logs. Everybody who may change a plain value can read it."
        >
          <option value="secret">Secret</option>
          <option value="plain">Plain</option>
        </SelectField>
      </Form>
    </Dialog>
  )
}
