import { type ComponentProps, type ReactNode, useId } from 'react'
import { useProblems } from './field-errors.ts'

export const inputClass =
  'h-8 w-full rounded-md border border-line-strong/60 bg-panel px-2.5 text-ink placeholder:text-muted/70 hover:border-line-strong aria-invalid:border-bad'

interface FieldProps {
  readonly label: string
  readonly hint?: ReactNode
  /** What the server or the form says is wrong with this field. */
  readonly problem?: string | undefined
  readonly children: (ids: {
    id: string
    'aria-describedby': string | undefined
    'aria-invalid': boolean | undefined
  }) => ReactNode
}

/** A label, its control, a hint and what is wrong with it, tied together for screen readers. */
export function Field({ label, hint, problem, children }: FieldProps) {
  const id = useId()
  const described = problem !== undefined ? `${id}-problem` : hint !== undefined ? `${id}-hint` : undefined
  return (
    <div className="grid content-start gap-1">
      <label htmlFor={id} className="font-medium">
        {label}
      </label>
      {children({ id, 'aria-describedby': described, 'aria-invalid': problem === undefined ? undefined : true })}
      {problem !== undefined ? (
        <FieldProblem id={`${id}-problem`}>{problem}</FieldProblem>
      ) : hint !== undefined ? (
        <p id={`${id}-hint`} className="text-muted text-[13px]">
          {hint}
        </p>
      ) : null}
    </div>
  )
}

/** What is wrong with a control, where it stands. */
export function FieldProblem({ id, children }: { readonly id?: string; readonly children: ReactNode }) {
  return (
    <p id={id} role="alert" data-problem className="text-[13px] text-bad">
      {children}
    </p>
  )
}

type TextFieldProps = Omit<FieldProps, 'children'> & ComponentProps<'input'>

export function TextField({ label, hint, problem, className = '', ...input }: TextFieldProps) {
  const told = useProblems()(input.name)
  return (
    <Field label={label} hint={hint} problem={problem ?? told}>
      {(ids) => <input {...ids} {...input} className={`${inputClass} ${className}`} />}
    </Field>
  )
}

type SelectFieldProps = Omit<FieldProps, 'children' | 'problem'> & ComponentProps<'select'>

export function SelectField({ label, hint, children, ...select }: SelectFieldProps) {
  const told = useProblems()(select.name)
  return (
    <Field label={label} hint={hint} problem={told}>
      {(ids) => (
        <select {...ids} {...select} className={inputClass}>
          {children}
        </select>
      )}
    </Field>
  )
}
