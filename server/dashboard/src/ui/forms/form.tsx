import { type FormEvent, type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { Actions } from '../dialogs/dialog.tsx'
import { Problem } from '../page/states.tsx'
import { FormError } from './field-errors.ts'

interface FormProps {
  /** What is done with the values of the named controls: a mutation. */
  readonly sending: {
    readonly mutate: (values: FormData) => void
    readonly isPending: boolean
    readonly error: unknown
  }
  readonly submit: string
  readonly onCancel?: (() => void) | undefined
  readonly danger?: boolean
  readonly children: ReactNode
}

/**
 * A form that keeps what was typed when the server refuses it, and says why: at the control whose name is that of the
 * field, or else above the buttons.
 */
export function Form({ sending, submit, onCancel, danger = false, children }: FormProps) {
  const { mutate, isPending, error } = sending
  const form = useRef<HTMLFormElement>(null)
  const [shown, setShown] = useState(false)
  useLayoutEffect(() => {
    setShown(error != null && form.current?.querySelector('[data-problem]') != null)
  }, [error])
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (!isPending) mutate(new FormData(event.currentTarget))
  }
  return (
    <form ref={form} onSubmit={send} noValidate className="grid gap-4">
      <FormError value={error}>{children}</FormError>
      {error != null && !shown && <Problem error={error} />}
      <Actions>
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" look={danger ? 'danger' : 'primary'} busy={isPending}>
          {submit}
        </Button>
      </Actions>
    </form>
  )
}

/** The trimmed text of a control; empty when it is not there. */
export function textOf(values: FormData, name: string): string {
  return secretOf(values, name).trim()
}

/** The text of a control as it was typed, such as a password. */
export function secretOf(values: FormData, name: string): string {
  const value = values.get(name)
  return typeof value === 'string' ? value : ''
}
