import { X } from 'lucide-react'
import { useId } from 'react'
import { Button } from '../controls/button.tsx'
import { codeInputClass, FieldError } from './field.tsx'
import { useFieldErrors } from './field-errors.ts'

/** A name with its value, one of several in a form. */
export interface Pair {
  readonly name: string
  readonly value: string
}

interface PairRowProps {
  /** Names the pair for screen readers, such as `variable 2`. */
  readonly label: string
  /** Names the value of the pair, such as `Value`. */
  readonly valueLabel: string
  readonly placeholders: Pair
  readonly row: Pair
  /** The field of the request that has the pairs. */
  readonly field: string
  readonly onChange: (row: Pair) => void
  readonly onRemove: () => void
}

/** A name and its value with a button that removes them, and the server's error. */
export function PairRow({ label, valueLabel, placeholders, row, field, onChange, onRemove }: PairRowProps) {
  const { name, value } = row
  const error = useFieldErrors()(`${field}.${name.trim()}`)
  const id = useId()
  // The error may be about the name or the value.
  const marks = error === undefined ? {} : { 'aria-invalid': true, 'aria-describedby': id }
  return (
    <div className="grid gap-1">
      <div className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)_auto] gap-2">
        <input
          {...marks}
          aria-label={`Name of ${label}`}
          className={codeInputClass}
          placeholder={placeholders.name}
          autoComplete="off"
          spellCheck={false}
          value={name}
          onChange={(event) => onChange({ ...row, name: event.target.value })}
        />
        <input
          {...marks}
          aria-label={`${valueLabel} of ${label}`}
          className={codeInputClass}
          placeholder={placeholders.value}
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={(event) => onChange({ ...row, value: event.target.value })}
        />
        <Button variant="quiet" size="icon" aria-label={`Remove ${label}`} onClick={onRemove}>
          <X size={14} />
        </Button>
      </div>
      {error !== undefined && <FieldError id={id}>{error}</FieldError>}
    </div>
  )
}
