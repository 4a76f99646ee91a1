import { TextField } from '../../../../ui/forms/field.tsx'

interface CommandFieldProps {
  readonly placeholder: string
  readonly hint: string
  /** The problem with the words that were entered, unless the form has it. */
  readonly error?: string | undefined
}

/** A field for a command, as `wordsOf` splits it. Phones change nothing of what is typed. */
export function CommandField(props: CommandFieldProps) {
  return (
    <TextField
      label="Command"
      name="command"
      autoComplete="off"
      autoCapitalize="none"
      spellCheck={false}
      className="font-mono"
      {...props}
    />
  )
}
