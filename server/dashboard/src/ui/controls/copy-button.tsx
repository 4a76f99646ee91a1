import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { Button } from './button.tsx'

/** Copies a text, and says so for a moment. */
export function CopyButton({ text, label = 'Copy' }: { readonly text: string; readonly label?: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 2000)
    return () => clearTimeout(timer)
  }, [copied])
  return (
    <Button
      size="small"
      icon={copied ? <Check size={14} /> : <Copy size={14} />}
      onClick={() => void copyText(text).then(setCopied)}
    >
      <span aria-live="polite">{copied ? 'Copied' : label}</span>
    </Button>
  )
}

/** The clipboard's interface exists on HTTPS and localhost alone; elsewhere a selection is copied. */
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

/** A piece of code or a secret with its button, which covers none of it: beside it, or above it on a phone. */
export function CodeBlock({ code, label }: { readonly code: string; readonly label: string }) {
  return (
    <div className="flex min-w-0 flex-col-reverse rounded-md border border-line bg-canvas sm:flex-row sm:items-start">
      <section
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
        tabIndex={0}
        aria-label={label}
        className="min-w-0 flex-1 overflow-x-auto px-3 pb-3 font-mono text-[13px] whitespace-pre sm:pt-3"
      >
        {code}
      </section>
      <div className="self-end p-2 sm:self-start">
        <CopyButton text={code} />
      </div>
    </div>
  )
}
