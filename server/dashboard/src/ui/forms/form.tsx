import { type FormEvent, type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { ButtonRow } from '../controls/button-row.tsx'
import { ErrorAlert } from '../page/states.tsx'
import {
  type Draft,
  DraftContext,
  type DraftField,
  keepChanges,
  type Outcome,
  outcomeText,
  type Saved,
  savedSince,
  shownText,
  typed,
  withoutSent,
} from './draft.ts'
import { FormErrorContext } from './field-errors.ts'

interface FormProps {
  /** The mutation that gets the values of the named controls. */
  readonly mutation: {
    readonly mutate: (values: FormData, options: { readonly onSuccess: () => void }) => void
    readonly isPending: boolean
    readonly error: unknown
    /** Forgets the error. */
    readonly reset?: () => void
  }
  /**
   * The server's current values, by the names of the form's texts and choices. These controls show them, and the
   * mutation gets only changed values.
   */
  readonly saved?: Saved | undefined
  /** True when the user has changed something that has no named control. */
  readonly alsoChanged?: boolean
  /** The label of the submit button. */
  readonly submit: string
  readonly onCancel?: (() => void) | undefined
  readonly danger?: boolean
  readonly children: ReactNode
}

/**
 * A form that keeps its values when the server rejects them. The error is shown at the control with the field's name,
 * or above the buttons without such a control.
 */
export function Form({ mutation, saved, alsoChanged = false, submit, onCancel, danger = false, children }: FormProps) {
  const { mutate, isPending, error, reset } = mutation
  const form = useRef<HTMLFormElement>(null)
  const [shownAtField, setShownAtField] = useState(false)
  const [draft, setDraft] = useState<Draft>(new Map())
  const [sent, setSent] = useState<Draft>(new Map())
  const [outcome, setOutcome] = useState<Outcome>()
  useLayoutEffect(() => {
    setShownAtField(error != null && form.current?.querySelector('[data-field-error]') != null)
  }, [error])
  const fieldOf = (name: string): DraftField | undefined => {
    if (saved === undefined || !Object.hasOwn(saved, name)) return undefined
    // While a form is being saved, the server's new value may be the sent text.
    const since = isPending ? undefined : savedSince(draft, saved, name)
    return {
      value: shownText(draft, saved, name),
      onChange: (text) => setDraft((before) => typed(before, saved, name, text, isPending ? sent : undefined)),
      note: since === undefined ? '' : `This was changed elsewhere since you began, to “${since}”.`,
    }
  }
  const onSubmit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (isPending) return
    const values = new FormData(event.currentTarget)
    const isChanged = saved === undefined || keepChanges(values, saved, draft) || alsoChanged
    setOutcome(isChanged ? undefined : 'unchanged')
    if (!isChanged) return reset?.()
    setSent(draft)
    const onSuccess = () => {
      setOutcome(saved && 'saved')
      setDraft((now) => withoutSent(now, draft))
    }
    mutate(values, { onSuccess })
  }
  const said = outcomeText(outcome, draft)
  return (
    <form ref={form} onSubmit={onSubmit} onInput={() => setOutcome(undefined)} noValidate className="grid gap-4">
      <FormErrorContext value={error}>
        <DraftContext value={fieldOf}>{children}</DraftContext>
      </FormErrorContext>
      {error != null && !shownAtField && <ErrorAlert error={error} />}
      <ButtonRow>
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" variant={danger ? 'danger' : 'primary'} busy={isPending}>
          {submit}
        </Button>
      </ButtonRow>
      {said !== '' && <output className="text-good">{said}</output>}
    </form>
  )
}
