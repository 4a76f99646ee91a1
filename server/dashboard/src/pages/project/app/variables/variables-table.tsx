import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import type { AppVariables } from '../../../../data/deployments.ts'
import { Menu, MenuItem } from '../../../../ui/controls/menu.tsx'
import { ConfirmDialog } from '../../../../ui/dialogs/confirm-dialog.tsx'
import { Table } from '../../../../ui/display/table.tsx'
import { Time } from '../../../../ui/display/time.tsx'
import { Empty } from '../../../../ui/page/states.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { useChange } from './use-change.ts'

type Variable = AppVariables['variables'][number]

interface VariablesTableProps {
  readonly app: AppOfPage
  readonly variables: readonly Variable[]
  readonly onChange: (variable: Variable) => void
}

export function VariablesTable({ app, variables, onChange }: VariablesTableProps) {
  const [removing, setRemoving] = useState<Variable>()
  return (
    <>
      <Table
        label="Variables"
        rows={variables}
        keyOf={({ name }) => name}
        columns={[
          { title: 'Name', cell: ({ name }) => <code className="break-all">{name}</code> },
          { title: 'Value', cell: ({ value }) => <Value value={value} /> },
          { title: 'Changed', wideOnly: true, align: 'right', cell: ({ updated_at }) => <Time at={updated_at} /> },
          {
            title: 'Action',
            align: 'right',
            cell: (variable) => (
              <Menu label={`Actions for ${variable.name}`}>
                <MenuItem onSelect={() => onChange(variable)}>Change</MenuItem>
                <MenuItem danger onSelect={() => setRemoving(variable)}>
                  Remove
                </MenuItem>
              </Menu>
            ),
          },
        ]}
        empty={<Empty title="This app has no variables" />}
      />
      {removing !== undefined && (
        <RemoveVariable app={app} name={removing.name} onClose={() => setRemoving(undefined)} />
      )}
    </>
  )
}

/** The value of a plain variable; secret values are never shown. */
function Value({ value }: { readonly value: string | null }) {
  if (value === null) return <span className="text-muted">secret</span>
  return <code className="line-clamp-2 break-all">{value}</code>
}

interface RemoveVariableProps {
  readonly app: AppOfPage
  readonly name: string
  readonly onClose: () => void
}

function RemoveVariable({ app, name, onClose }: RemoveVariableProps) {
  const remove = useChange(app, () => api.variables.update({ params: paramsOf(app), body: { unset: [name] } }), onClose)
  return (
    <ConfirmDialog open onClose={onClose} title={`Remove ${name}?`} action="Remove variable" mutation={remove}>
      <p>Later releases do not have it. The running release keeps it until you apply the change.</p>
    </ConfirmDialog>
  )
}
