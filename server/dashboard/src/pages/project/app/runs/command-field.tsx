import { TextField } from '../../../../ui/forms/field.tsx'

interface CommandFieldProps {
  readonly placeholder: string
  readonly hint: string
  /** The problem with the entered words, unless the form shows it. */
  readonly error?: string | undefined
}

/** A field for a command, as `wordsOf` splits it. Phones must not correct the text. */
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
