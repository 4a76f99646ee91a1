import Anser from 'anser'

const colours: Readonly<Record<string, string>> = {
  'ansi-black': 'text-muted',
  'ansi-red': 'text-bad',
  'ansi-green': 'text-good',
  'ansi-yellow': 'text-warn',
  'ansi-blue': 'text-accent',
  'ansi-magenta': 'text-accent-strong',
  'ansi-cyan': 'text-accent',
  'ansi-white': 'text-ink',
}

/** A line of terminal output in its colours. Other control sequences are removed. */
export function AnsiLine({ text }: { readonly text: string }) {
  if (!text.includes('\u001b')) return text
  return Anser.ansiToJson(text, { use_classes: true, remove_empty: true }).map(
    ({ content, fg, decorations }, index) => {
      const colour = colours[fg?.replace('bright-', '') ?? ''] ?? ''
      return (
        // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a line keep their order.
        <span key={index} className={`${colour} ${decorations.includes('bold') ? 'font-bold' : ''}`}>
          {content}
        </span>
      )
    },
  )
}
