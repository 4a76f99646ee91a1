import { Plus, X } from 'lucide-react'
import { useState } from 'react'
import { parseDotenv } from '../../../data/variables/dotenv.ts'
import { type VariableRow, withPasted, withValue } from '../../../data/variables/variable-rows.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { FieldError, inputClass } from '../../../ui/forms/field.tsx'
import { useFieldErrors } from '../../../ui/forms/field-errors.ts'

interface VariablesEditorProps {
  readonly variables: readonly VariableRow[]
  readonly onChange: (variables: readonly VariableRow[]) => void
}

/** An app's variables: one row each, or all at once by pasting a dotenv file. */
export function VariablesEditor({ variables, onChange }: VariablesEditorProps) {
  const [pasting, setPasting] = useState(false)
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 font-medium">Variables</legend>
      {variables.map((row, index) => (
        <Row
          // biome-ignore lint/suspicious/noArrayIndexKey: the name changes while it is typed, so it is no key.
          key={index}
          number={index + 1}
          row={row}
          onChange={(changed) => onChange(variables.with(index, changed))}
          onRemove={() => onChange(variables.toSpliced(index, 1))}
        />
      ))}
      {pasting && (
        <textarea
          aria-label="Text of a dotenv file"
          className={`${inputClass} h-28 py-2 font-mono text-[13px]`}
          placeholder={'# paste the text of a .env file\nNAME=value'}
          spellCheck={false}
          onChange={(event) => {
            const pasted = parseDotenv(event.target.value)
            if (pasted.length > 0) onChange(withPasted(variables, pasted))
          }}
        />
      )}
      <div className="flex gap-2">
        <Button
          size="small"
          icon={<Plus size={14} />}
          onClick={() => onChange([...variables, { name: '', value: '', existing: false }])}
        >
          Add a variable
        </Button>
        <Button size="small" variant="quiet" aria-expanded={pasting} onClick={() => setPasting(!pasting)}>
          Paste a dotenv file
        </Button>
      </div>
    </fieldset>
  )
}

interface RowProps {
  /** The position of the row, from 1. */
  readonly number: number
  readonly row: VariableRow
  readonly onChange: (row: VariableRow) => void
  readonly onRemove: () => void
}

function Row({ number, row, onChange, onRemove }: RowProps) {
  const { name, value, existing } = row
  const error = useFieldErrors()(`env_vars.${name.trim()}`)
  return (
    <div className="grid gap-1">
      <div className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)_auto] gap-2">
        <input
          aria-label={`Name of variable ${number}`}
          aria-invalid={error === undefined ? undefined : true}
          className={`${inputClass} font-mono text-[13px]`}
          placeholder="NAME"
          autoComplete="off"
          spellCheck={false}
          value={name}
          readOnly={existing}
          onChange={(event) => onChange({ ...row, name: event.target.value })}
        />
        <input
          aria-label={`Value of variable ${number}`}
          className={`${inputClass} font-mono text-[13px]`}
          placeholder={value === null ? 'unchanged (hidden)' : existing ? 'empty' : 'value'}
          autoComplete="off"
          spellCheck={false}
          value={value ?? ''}
          onChange={(event) => onChange(withValue(row, event.target.value))}
        />
        <Button variant="quiet" size="icon" aria-label={`Remove variable ${number}`} onClick={onRemove}>
          <X size={14} />
        </Button>
      </div>
      {error !== undefined && <FieldError>{error}</FieldError>}
    </div>
  )
}
