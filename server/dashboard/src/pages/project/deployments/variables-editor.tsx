import { Plus, X } from 'lucide-react'
import { useState } from 'react'
import { parseDotenv } from '../../../data/variables/dotenv.ts'
import { type VariableRow, withPasted, withValue } from '../../../data/variables/variable-rows.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { FieldProblem, inputClass } from '../../../ui/forms/field.tsx'
import { useProblems } from '../../../ui/forms/field-errors.ts'

interface VariablesProps {
  readonly variables: readonly VariableRow[]
  readonly onChange: (variables: readonly VariableRow[]) => void
}

/** An app's variables: a row each, or all at once by pasting the text of a dotenv file. */
export function Variables({ variables, onChange }: VariablesProps) {
  const problemOf = useProblems()
  const [pasting, setPasting] = useState(false)
  const change = (at: number, to: (row: VariableRow) => VariableRow) =>
    onChange(variables.map((each, index) => (index === at ? to(each) : each)))
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 font-medium">Variables</legend>
      {variables.map(({ name, value, known }, index) => {
        const problem = problemOf(`env_vars.${name.trim()}`)
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a name that is being typed is no identity.
          <div key={index} className="grid gap-1">
            <div className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)_auto] gap-2">
              <input
                aria-label={`Name of variable ${index + 1}`}
                aria-invalid={problem === undefined ? undefined : true}
                className={`${inputClass} font-mono text-[13px]`}
                placeholder="NAME"
                autoComplete="off"
                spellCheck={false}
                value={name}
                readOnly={known}
                onChange={(event) => change(index, (row) => ({ ...row, name: event.target.value }))}
              />
              <input
                aria-label={`Value of variable ${index + 1}`}
                className={`${inputClass} font-mono text-[13px]`}
                placeholder={value === null ? 'unchanged (hidden)' : known ? 'empty' : 'value'}
                autoComplete="off"
                spellCheck={false}
                value={value ?? ''}
                onChange={(event) => change(index, (row) => withValue(row, event.target.value))}
              />
              <Button
                look="quiet"
                size="icon"
                aria-label={`Remove variable ${index + 1}`}
                onClick={() => onChange(variables.filter((_, each) => each !== index))}
              >
                <X size={14} />
              </Button>
            </div>
            {problem !== undefined && <FieldProblem>{problem}</FieldProblem>}
          </div>
        )
      })}
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
          onClick={() => onChange([...variables, { name: '', value: '', known: false }])}
        >
          Add a variable
        </Button>
        <Button size="small" look="quiet" aria-expanded={pasting} onClick={() => setPasting(!pasting)}>
          Paste a dotenv file
        </Button>
      </div>
    </fieldset>
  )
}
