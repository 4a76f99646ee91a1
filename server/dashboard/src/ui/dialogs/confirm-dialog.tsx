import { type ReactNode, useState } from 'react'
import { TextField } from '../forms/field.tsx'
import { Form } from '../forms/form.tsx'
import { Dialog } from './dialog.tsx'

interface ConfirmProps {
  readonly open: boolean
  readonly onOpenChange: (open: boolean) => void
  readonly title: string
  readonly action: string
  readonly children: ReactNode
  /** What must be typed first, for what does not come back. */
  readonly typed?: string
  readonly busy: boolean
  readonly error: unknown
  readonly onConfirm: () => void
}

/** Asks before something is done that cannot be undone by a click. */
export function Confirm(props: ConfirmProps) {
  const { open, onOpenChange, title, action, children, typed, busy, error, onConfirm } = props
  const [text, setText] = useState('')
  const [mismatch, setMismatch] = useState(false)
  const confirm = () => {
    if (typed !== undefined && text !== typed) return setMismatch(true)
    onConfirm()
  }
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title={title}>
      <Form
        sending={{ mutate: confirm, isPending: busy, error }}
        submit={action}
        danger
        onCancel={() => onOpenChange(false)}
      >
        <div className="grid gap-2">{children}</div>
        {typed !== undefined && (
          <TextField
            label={`Type ${typed} to confirm`}
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              setMismatch(false)
            }}
            autoComplete="off"
            problem={mismatch ? `This is not ${typed}.` : undefined}
          />
        )}
      </Form>
    </Dialog>
  )
}
