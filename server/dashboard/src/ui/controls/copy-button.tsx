import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { Button } from './button.tsx'

interface CopyButtonProps {
  readonly text: string
  readonly label?: string
  /** The label of a button that shows only an icon. */
  readonly compact?: string
}

/** Copies a text to the clipboard and shows "Copied" for two seconds. */
export function CopyButton({ text, label = 'Copy', compact }: CopyButtonProps) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 2000)
    return () => clearTimeout(timer)
  }, [copied])
  return (
    <Button
      size="small"
      {...(compact !== undefined && { variant: 'quiet', title: compact })}
      icon={copied ? <Check size={14} /> : <Copy size={14} />}
      onClick={() => void copyText(text).then(setCopied)}
    >
      <span aria-live="polite" className={compact === undefined ? undefined : 'sr-only'}>
        {copied ? 'Copied' : (compact ?? label)}
      </span>
    </Button>
  )
}

/** Copies a text. Browsers offer the Clipboard API on HTTPS and localhost only; elsewhere a selection is copied. */
async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  }
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  return done
}
