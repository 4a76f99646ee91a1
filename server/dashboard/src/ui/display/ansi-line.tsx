import Anser from 'anser'
import { Fragment } from 'react'

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

/** A line of terminal output in its colours, with a text marked wherever it occurs. Other control sequences are removed. */
export function AnsiLine({ text, mark = '' }: { readonly text: string; readonly mark?: string }) {
  if (!text.includes('\u001b')) return <Marked text={text} mark={mark} />
  return Anser.ansiToJson(text, { use_classes: true, remove_empty: true }).map(
    ({ content, fg, decorations }, index) => {
      const colour = colours[fg?.replace('bright-', '') ?? ''] ?? ''
      return (
        // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a line keep their order.
        <span key={index} className={`${colour} ${decorations.includes('bold') ? 'font-bold' : ''}`}>
          <Marked text={content} mark={mark} />
        </span>
      )
    },
  )
}

/** @param props.mark in lower case; empty for none */
function Marked({ text, mark }: { readonly text: string; readonly mark: string }) {
  const lower = text.toLowerCase()
  // A few letters have another length in lower case: their lines are found but not marked.
  if (mark === '' || lower.length !== text.length || !lower.includes(mark)) return text
  const parts = lower.split(mark)
  let at = 0
  return parts.map((part, index) => {
    const from = at
    at += part.length + mark.length
    return (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a line keep their order.
      <Fragment key={index}>
        {text.slice(from, from + part.length)}
        {index < parts.length - 1 && (
          <mark className="rounded-xs bg-warn-soft text-ink outline outline-warn">
            {text.slice(from + part.length, at)}
          </mark>
        )}
      </Fragment>
    )
  })
}
