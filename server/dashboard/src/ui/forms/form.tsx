import { type FormEvent, type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { ButtonRow } from '../controls/button-row.tsx'
import { ErrorAlert } from '../page/states.tsx'
import { FormErrorContext } from './field-errors.ts'

interface FormProps {
  /** The mutation that gets the values of the named controls. */
  readonly mutation: {
    readonly mutate: (values: FormData) => void
    readonly isPending: boolean
    readonly error: unknown
  }
  /** The label of the submit button. */
  readonly submit: string
  readonly onCancel?: (() => void) | undefined
  readonly danger?: boolean
  readonly children: ReactNode
}

/**
 * A form that keeps its values when the server rejects them. The error is shown at the control whose name is the
 * field's, or above the buttons when there is no such control.
 */
export function Form({ mutation, submit, onCancel, danger = false, children }: FormProps) {
  const { mutate, isPending, error } = mutation
  const form = useRef<HTMLFormElement>(null)
  const [shownAtField, setShownAtField] = useState(false)
  useLayoutEffect(() => {
    setShownAtField(error != null && form.current?.querySelector('[data-field-error]') != null)
  }, [error])
  const onSubmit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (!isPending) mutate(new FormData(event.currentTarget))
  }
  return (
    <form ref={form} onSubmit={onSubmit} noValidate className="grid gap-4">
      <FormErrorContext value={error}>{children}</FormErrorContext>
      {error != null && !shownAtField && <ErrorAlert error={error} />}
      <ButtonRow>
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" variant={danger ? 'danger' : 'primary'} busy={isPending}>
          {submit}
        </Button>
      </ButtonRow>
    </form>
  )
}

/** Returns the trimmed text of a control; the empty string when the form has no such control. */
export function textOf(values: FormData, name: string): string {
  return secretOf(values, name).trim()
}

/** Returns the text of a control exactly as typed, for passwords. */
export function secretOf(values: FormData, name: string): string {
  const value = values.get(name)
  return typeof value === 'string' ? value : ''
}
