import { parseDotenv } from '@fairlead/server/dotenv'
import { Plus, X } from 'lucide-react'
import { useId, useState } from 'react'
import { type VariableRow, withPasted } from '../../../data/variable-rows.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { FieldError, inputClass } from '../../../ui/forms/field.tsx'
import { useFieldErrors } from '../../../ui/forms/field-errors.ts'

interface VariablesEditorProps {
  readonly variables: readonly VariableRow[]
  readonly onChange: (variables: readonly VariableRow[]) => void
  /** The field of the request that has them. */
  readonly field: string
}

/** An app's variables: one row each, or all at once by a dotenv file that is pasted or uploaded. */
export function VariablesEditor({ variables, onChange, field }: VariablesEditorProps) {
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
          field={field}
          onChange={(changed) => onChange(variables.with(index, changed))}
          onRemove={() => onChange(variables.toSpliced(index, 1))}
        />
      ))}
      {pasting && <DotenvInput onVariables={(pasted) => onChange(withPasted(variables, pasted))} />}
      <div className="flex gap-2">
        <Button
          size="small"
          icon={<Plus size={14} />}
          onClick={() => onChange([...variables, { name: '', value: '' }])}
        >
          Add a variable
        </Button>
        <Button size="small" variant="quiet" aria-expanded={pasting} onClick={() => setPasting(!pasting)}>
          Paste or upload a dotenv file
        </Button>
      </div>
    </fieldset>
  )
}

interface RowProps {
  /** The position of the row, from 1. */
  readonly number: number
  readonly row: VariableRow
  readonly field: string
  readonly onChange: (row: VariableRow) => void
  readonly onRemove: () => void
}

function Row({ number, row, field, onChange, onRemove }: RowProps) {
  const { name, value } = row
  const error = useFieldErrors()(`${field}.${name.trim()}`)
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
          onChange={(event) => onChange({ ...row, name: event.target.value })}
        />
        <input
          aria-label={`Value of variable ${number}`}
          className={`${inputClass} font-mono text-[13px]`}
          placeholder="value"
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={(event) => onChange({ ...row, value: event.target.value })}
        />
        <Button variant="quiet" size="icon" aria-label={`Remove variable ${number}`} onClick={onRemove}>
          <X size={14} />
        </Button>
      </div>
      {error !== undefined && <FieldError>{error}</FieldError>}
    </div>
  )
}

/** A text area for a dotenv file. Reports the variables when the whole text is valid, and otherwise the first error. */
function DotenvInput({ onVariables }: { readonly onVariables: (variables: Record<string, string>) => void }) {
  const [error, setError] = useState<string>()
  const id = useId()
  const read = (text: string) => {
    const result = parseDotenv(text)
    setError(result.ok ? undefined : `Line ${result.line}: ${result.message}.`)
    if (result.ok) onVariables(result.variables)
  }
  return (
    <div className="grid gap-1">
      <input
        type="file"
        aria-label="Dotenv file"
        className="text-[13px] text-muted file:mr-2 file:rounded-md file:border file:border-line-strong/60 file:bg-panel file:px-2.5 file:py-1 file:text-ink"
        onChange={(event) => void event.target.files?.[0]?.text().then(read)}
      />
      <textarea
        aria-label="Text of a dotenv file"
        aria-invalid={error === undefined ? undefined : true}
        aria-describedby={error === undefined ? undefined : id}
        className={`${inputClass} h-28 py-2 font-mono text-[13px]`}
        placeholder={'# paste the text of a .env file\nNAME=value'}
        spellCheck={false}
        onChange={(event) => read(event.target.value)}
      />
      {error !== undefined && (
        <p id={id} role="alert" className="text-[13px] text-bad">
          {error}
        </p>
      )}
    </div>
  )
}
