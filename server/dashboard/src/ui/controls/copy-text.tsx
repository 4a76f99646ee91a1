import { CopyButton } from './copy-button.tsx'

interface CopyTextProps {
  readonly text: string
  /** Names the text for screen readers, such as `the value of the TXT record`. */
  readonly label: string
}

/** A value to enter elsewhere, with a copy button. Long values break anywhere. */
export function CopyText({ text, label }: CopyTextProps) {
  return (
    <span className="flex items-start gap-1">
      <code className="wrap-anywhere min-w-0 py-1">{text}</code>
      <CopyButton text={text} compact={`Copy ${label}`} />
    </span>
  )
}
