import { type ComponentProps, type ReactNode, useId } from 'react'
import { type DraftField, useDraftField } from './draft.ts'
import { useFieldErrors } from './field-errors.ts'

export const inputClass =
  'h-8 w-full rounded-md border border-line-strong/60 bg-panel px-2.5 text-ink placeholder:text-muted/70 hover:border-line-strong aria-invalid:border-bad'

/** Fields with code type. Phones zoom into fields with small text, so the text has normal size there. */
export const codeInputClass = `${inputClass} font-mono md:pointer-fine:text-[13px]`

interface FieldProps {
  readonly label: string
  readonly hint?: ReactNode
  /** The error message of this field. */
  readonly error?: string | undefined
  /** A warning that may appear later, empty until then; `undefined` for a field without warnings. */
  readonly note?: string | undefined
  readonly children: (ids: {
    id: string
    'aria-describedby': string | undefined
    'aria-invalid': boolean | undefined
  }) => ReactNode
}

/** A label, its control, a hint or an error message, and a warning, connected for screen readers. */
export function Field({ label, hint, error, note, children }: FieldProps) {
  const id = useId()
  const about = error !== undefined ? `${id}-error` : hint !== undefined ? `${id}-hint` : undefined
  const describedBy = note ? [about, `${id}-note`].filter(Boolean).join(' ') : about
  return (
    <div className="grid content-start gap-1">
      <label htmlFor={id} className="font-medium">
        {label}
      </label>
      {children({ id, 'aria-describedby': describedBy, 'aria-invalid': error === undefined ? undefined : true })}
      {error !== undefined ? (
        <FieldError id={`${id}-error`}>{error}</FieldError>
      ) : hint !== undefined ? (
        <p id={`${id}-hint`} className="text-muted text-[13px]">
          {hint}
        </p>
      ) : null}
      {note !== undefined && (
        // The element exists before its text, so that screen readers announce the text. Empty, it takes no room.
        <output id={`${id}-note`} className="text-[13px] text-muted empty:-mt-1">
          {note}
        </output>
      )}
    </div>
  )
}

/** The error message of a control, shown next to it. */
export function FieldError({ id, children }: { readonly id?: string; readonly children: ReactNode }) {
  return (
    <p id={id} role="alert" data-field-error className="text-[13px] text-bad">
      {children}
    </p>
  )
}

/** Gives a control its draft over its saved value. */
const drafted = (draft: DraftField | undefined) =>
  draft && {
    defaultValue: undefined,
    value: draft.value,
    onChange: ({ target }: { readonly target: { readonly value: string } }) => draft.onChange(target.value),
  }

/** Browsers return no text for a number field that is not a number, so it would count as empty. */
type TextFieldProps = Omit<FieldProps, 'children' | 'note'> &
  Omit<ComponentProps<'input'>, 'type'> & { readonly type?: 'text' | 'password' | 'email' | 'url' | undefined }

export function TextField({ label, hint, error, className = '', ...input }: TextFieldProps) {
  const serverError = useFieldErrors()(input.name)
  const draft = useDraftField(input.name)
  return (
    <Field label={label} hint={hint} note={draft?.note} error={error ?? serverError}>
      {(ids) => <input {...ids} {...input} {...drafted(draft)} className={`${inputClass} ${className}`} />}
    </Field>
  )
}

type SelectFieldProps = Omit<FieldProps, 'children' | 'error' | 'note'> & ComponentProps<'select'>

export function SelectField({ label, hint, children, ...select }: SelectFieldProps) {
  const serverError = useFieldErrors()(select.name)
  const draft = useDraftField(select.name)
  return (
    <Field label={label} hint={hint} note={draft?.note} error={serverError}>
      {(ids) => (
        <select {...ids} {...select} {...drafted(draft)} className={inputClass}>
          {children}
        </select>
      )}
    </Field>
  )
}

type TextAreaFieldProps = Omit<FieldProps, 'children' | 'error' | 'note'> & ComponentProps<'textarea'>

/** A field for several lines, in code type. */
export function TextAreaField({ label, hint, className = '', ...area }: TextAreaFieldProps) {
  const serverError = useFieldErrors()(area.name)
  const draft = useDraftField(area.name)
  return (
    <Field label={label} hint={hint} note={draft?.note} error={serverError}>
      {(ids) => (
        <textarea
          {...ids}
          spellCheck={false}
          autoComplete="off"
          {...area}
          {...drafted(draft)}
          className={`${codeInputClass} py-2 ${className}`}
        />
      )}
    </Field>
  )
}
