import { parseDotenv } from '@fairlead/server/dotenv'
import { Plus } from 'lucide-react'
import { useId, useState } from 'react'
import { type VariableRow, withPasted } from '../../../data/variable-rows.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { codeInputClass } from '../../../ui/forms/field.tsx'
import { PairRow } from '../../../ui/forms/pair-row.tsx'

interface VariablesEditorProps {
  readonly variables: readonly VariableRow[]
  readonly onChange: (variables: readonly VariableRow[]) => void
  /** The field of the request that has them. */
  readonly field: string
}

/** An app's variables: one row each, or a pasted or uploaded dotenv file. */
export function VariablesEditor({ variables, onChange, field }: VariablesEditorProps) {
  const [pasting, setPasting] = useState(false)
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 font-medium">Variables</legend>
      {variables.map((row, index) => (
        <PairRow
          // biome-ignore lint/suspicious/noArrayIndexKey: the name changes while it is typed, so it is not a key.
          key={index}
          label={`variable ${index + 1}`}
          valueLabel="Value"
          placeholders={{ name: 'NAME', value: 'value' }}
          row={row}
          field={field}
          onChange={(changed) => onChange(variables.with(index, changed))}
          onRemove={() => onChange(variables.toSpliced(index, 1))}
        />
      ))}
      {pasting && <DotenvInput onVariables={(pasted) => onChange(withPasted(variables, pasted))} />}
      <div className="flex flex-wrap gap-2">
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
        className={`${codeInputClass} h-28 py-2`}
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
