import { FieldProblem } from './field.tsx'
import { useProblems } from './field-errors.ts'

interface CheckListProps {
  readonly legend: string
  /** Of all its controls. */
  readonly name: string
  readonly choices: readonly { readonly value: string; readonly label: string }[]
}

/** Several of some choices; the form's data holds each that is checked. */
export function CheckList({ legend, name, choices }: CheckListProps) {
  const problem = useProblems()(name)
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
      {problem !== undefined && <FieldProblem>{problem}</FieldProblem>}
    </fieldset>
  )
}
