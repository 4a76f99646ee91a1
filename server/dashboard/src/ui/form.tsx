import type { FormEvent, ReactNode } from 'react'
import { Button } from './button.tsx'
import { Actions } from './dialog.tsx'
import { Problem, problemOf } from './states.tsx'

interface FormProps {
  /** Called with the values of the named controls. */
  readonly onSubmit: (values: FormData) => void
  readonly submit: string
  readonly busy: boolean
  readonly error: unknown
  /** The fields that show what is wrong with them by themselves; every other error is shown above the buttons. */
  readonly fields?: readonly string[]
  readonly onCancel?: (() => void) | undefined
  readonly danger?: boolean
  readonly children: ReactNode
}

/** A form that keeps what was typed when the server refuses it, and says why. */
export function Form(props: FormProps) {
  const { onSubmit, submit, busy, error, fields = [], onCancel, danger = false, children } = props
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (!busy) onSubmit(new FormData(event.currentTarget))
  }
  const shown = fields.some((field) => problemOf(error, field) !== undefined)
  return (
    <form onSubmit={send} noValidate className="grid gap-4">
      {children}
      {error != null && !shown && <Problem error={error} />}
      <Actions>
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" look={danger ? 'danger' : 'primary'} busy={busy}>
          {submit}
        </Button>
      </Actions>
    </form>
  )
}

/** The trimmed text of a control; empty when it is not there. */
export function textOf(values: FormData, name: string): string {
  const value = values.get(name)
  return typeof value === 'string' ? value.trim() : ''
}
