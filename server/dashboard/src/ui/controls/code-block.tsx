import { CopyButton } from './copy-button.tsx'

interface CodeBlockProps {
  readonly code: string
  readonly label: string
  /** Breaks long lines, so that the whole secret is visible. */
  readonly wrap?: boolean
}

/**
 * Code or a secret with a copy button: beside the text, or above it on a phone, so that the button does not cover it.
 */
export function CodeBlock({ code, label, wrap = false }: CodeBlockProps) {
  return (
    <div className="flex min-w-0 flex-col-reverse rounded-md border border-line bg-canvas sm:flex-row sm:items-start">
      <section
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard.
        tabIndex={0}
        aria-label={label}
        className={`min-w-0 flex-1 overflow-x-auto px-3 pb-3 font-mono text-[13px] sm:pt-3 ${wrap ? 'wrap-anywhere whitespace-pre-wrap' : 'whitespace-pre'}`}
      >
        {code}
      </section>
      <div className="self-end p-2 sm:self-start">
        <CopyButton text={code} />
      </div>
    </div>
  )
}
