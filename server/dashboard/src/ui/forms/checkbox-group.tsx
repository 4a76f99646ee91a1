import { FieldError } from './field.tsx'
import { useFieldErrors } from './field-errors.ts'

interface CheckboxGroupProps {
  readonly legend: string
  /** The name of every checkbox in the group. */
  readonly name: string
  readonly choices: readonly { readonly value: string; readonly label: string }[]
}

/** A choice of several values. The form data has one entry for each checked box. */
export function CheckboxGroup({ legend, name, choices }: CheckboxGroupProps) {
  const error = useFieldErrors()(name)
  return (
    <fieldset className="rounded-md border border-line p-3">
      <legend className="px-1 font-medium">{legend}</legend>
      <div className="grid max-h-48 gap-x-4 gap-y-1 overflow-y-auto sm:grid-cols-2">
        {choices.map(({ value, label }) => (
          <label key={value} className="flex min-w-0 items-center gap-2">
            <input type="checkbox" name={name} value={value} className="size-4 shrink-0 accent-accent" />
            <span className="truncate">{label}</span>
          </label>
        ))}
      </div>
      {error !== undefined && <FieldError>{error}</FieldError>}
    </fieldset>
  )
}
