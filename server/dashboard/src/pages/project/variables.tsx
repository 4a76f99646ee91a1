import { Plus, X } from 'lucide-react'
import { useState } from 'react'
import { parseDotenv, type Variable } from '../../data/dotenv.ts'
import { Button } from '../../ui/button.tsx'
import { inputClass } from '../../ui/field.tsx'
import { problemOf } from '../../ui/states.tsx'

interface VariablesProps {
  readonly variables: readonly Variable[]
  readonly onChange: (variables: readonly Variable[]) => void
  /** What the server said of the last try. */
  readonly error: unknown
}

/** An app's variables: a row each, or all at once by pasting the text of a dotenv file. */
export function Variables({ variables, onChange, error }: VariablesProps) {
  const [pasting, setPasting] = useState(false)
  const change = (at: number, part: Partial<Variable>) =>
    onChange(variables.map((each, index) => (index === at ? { ...each, ...part } : each)))
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 font-medium">Variables</legend>
      {variables.map(({ name, value }, index) => {
        const problem = problemOf(error, `env_vars.${name}`)
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a name that is being typed is no identity.
          <div key={index} className="grid gap-1">
            <div className="flex gap-2">
              <input
                aria-label={`Name of variable ${index + 1}`}
                aria-invalid={problem === undefined ? undefined : true}
                className={`${inputClass} font-mono text-[13px]`}
                placeholder="NAME"
                autoComplete="off"
                spellCheck={false}
                value={name}
                onChange={(event) => change(index, { name: event.target.value })}
              />
              <input
                aria-label={`Value of variable ${index + 1}`}
                className={`${inputClass} font-mono text-[13px]`}
                placeholder="value"
                autoComplete="off"
                spellCheck={false}
                value={value}
                onChange={(event) => change(index, { value: event.target.value })}
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
            {problem !== undefined && <p className="text-[13px] text-bad">{problem}</p>}
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
            if (pasted.length > 0) onChange(merge(variables, pasted))
          }}
        />
      )}
      <div className="flex gap-2">
        <Button
          size="small"
          icon={<Plus size={14} />}
          onClick={() => onChange([...variables, { name: '', value: '' }])}
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

/** Pasted values win over those at hand; rows without a name go. */
function merge(variables: readonly Variable[], pasted: readonly Variable[]): Variable[] {
  const all = new Map([...variables, ...pasted].map(({ name, value }) => [name.trim(), value]))
  all.delete('')
  return [...all].map(([name, value]) => ({ name, value }))
}
