import { type ReactNode, useState } from 'react'
import { TextField } from '../forms/field.tsx'
import { Form } from '../forms/form.tsx'
import { Dialog } from './dialog.tsx'

interface ConfirmDialogProps {
  readonly open: boolean
  readonly onClose: () => void
  readonly title: string
  /** The label of the button that confirms. */
  readonly action: string
  readonly mutation: { readonly mutate: () => void; readonly isPending: boolean; readonly error: unknown }
  /** Text that the user must type first, for actions that cannot be undone. */
  readonly confirmationText?: string
  readonly children: ReactNode
}

/** Asks for confirmation before an action with lasting effects. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const { open, onClose, title, action, mutation, confirmationText, children } = props
  const [text, setText] = useState('')
  const [mismatch, setMismatch] = useState(false)
  const confirm = () => {
    if (confirmationText !== undefined && text !== confirmationText) return setMismatch(true)
    mutation.mutate()
  }
  return (
    <Dialog open={open} onClose={onClose} title={title}>
      <Form mutation={{ ...mutation, mutate: confirm }} submit={action} danger onCancel={onClose}>
        <div className="grid gap-2">{children}</div>
        {confirmationText !== undefined && (
          <TextField
            label={`Type ${confirmationText} to confirm`}
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              setMismatch(false)
            }}
            autoComplete="off"
            error={mismatch ? `The text is not ${confirmationText}.` : undefined}
          />
        )}
      </Form>
    </Dialog>
  )
}
