import { type ReactNode, useState } from 'react'
import type { Match } from '../../../data/log/log-search.ts'
import { AnsiLine } from '../../../ui/display/ansi-line.tsx'
import type { RowLayout } from './row-layout.ts'

/** The height of a row in pixels. */
export const rowHeight = 20
/** The widths of a row's other parts in pixels, its margins included; their classes below repeat them. */
const numberWidth = 52
const timeWidth = 72
const marginWidth = 28
const timeFormat = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' })

const nameWidth = (characters: number): number => (characters === 0 ? 0 : Math.ceil(characters * 7.6) + 14)

/** The pixels of a row that are not for its text. */
export const besideText = ({ timed, named }: Pick<RowLook, 'timed' | 'named'>): number =>
  marginWidth + numberWidth + (timed ? timeWidth : 0) + nameWidth(named)

interface LogRowsProps {
  readonly layout: RowLayout
  /** The index of the first line that is drawn. */
  readonly from: number
  /** The lines that are drawn. */
  readonly visible: readonly Match[]
  /** The characters of a row; `null` when lines are not wrapped. */
  readonly columns: number | null
  readonly look: RowLook
}

export interface RowLook {
  /** True when any line of the log has a time. */
  readonly timed: boolean
  /** The characters of the longest name of an instance; 0 when names are not shown. */
  readonly named: number
  /** The text to mark, in lower case. */
  readonly mark: string
  /** The key of the line that the page's address names. */
  readonly linked: string
  /** True when the keyboard reaches the links of lines, because they are few. */
  readonly tabbable: boolean
  readonly onLink: (key: string) => void
  /** Describes the release of the next lines. */
  readonly describeRelease: (deploymentId: string) => ReactNode
}

/** The visible rows of a log at their positions in a space that is high enough for all rows. */
export function LogRows({ layout, from, visible, columns, look }: LogRowsProps) {
  return (
    <div className={`relative ${columns === null ? 'min-w-max' : ''}`} style={{ height: layout.rows * rowHeight }}>
      {visible.map(({ number, line }, index) => (
        <Row key={number} number={number} line={line} top={layout.row(from + index)} columns={columns} look={look} />
      ))}
    </div>
  )
}

const levels = {
  error: 'border-bad bg-bad-soft/50',
  warning: 'border-warn bg-warn-soft/50',
  info: 'border-transparent',
} as const

interface RowProps extends Match {
  /** The first row of the line. */
  readonly top: number
  readonly columns: number | null
  readonly look: RowLook
}

function Row({ number, line, top, columns, look }: RowProps) {
  if (line.isMark) return <Mark line={line} top={top} look={look} />
  const isLinked = line.key !== null && line.key === look.linked
  return (
    <div
      style={{ transform: `translateY(${top * rowHeight}px)`, minHeight: rowHeight }}
      aria-current={isLinked ? 'location' : undefined}
      className={`absolute top-0 left-0 flex w-full border-l-3 pr-3 pl-[13px] ${columns === null ? 'whitespace-pre' : ''} ${isLinked ? 'border-accent bg-accent-soft' : levels[line.level]}`}
    >
      <LineLink number={number} line={line} look={look} />
      {look.timed && (
        <span className="w-[72px] shrink-0 select-none text-muted" title={line.at ?? undefined}>
          {line.at === null ? '' : timeFormat.format(new Date(line.at))}
        </span>
      )}
      {look.named > 0 && (
        <span style={{ width: nameWidth(look.named) }} className="shrink-0 select-none whitespace-pre text-muted">
          {line.process ?? ''}
        </span>
      )}
      <span
        {...(columns !== null && {
          style: { width: `${columns}ch` },
          className: 'shrink-0 whitespace-break-spaces [line-break:anywhere]',
        })}
      >
        <AnsiLine text={line.text} mark={look.mark} />
      </span>
    </div>
  )
}

/** Marks the beginning of another release. */
function Mark({ line: { deploymentId }, top, look }: Pick<RowProps, 'line' | 'top' | 'look'>) {
  return (
    <div
      style={{ transform: `translateY(${top * rowHeight}px)`, height: rowHeight }}
      className="absolute top-0 left-0 flex w-full items-center overflow-hidden whitespace-nowrap border-line border-y bg-accent-soft px-4 font-sans text-[12.5px]"
    >
      {deploymentId !== null && look.describeRelease(deploymentId)}
    </div>
  )
}

/**
 * The number of a line, which becomes a link when the pointer is on it or where the keyboard reaches it. Links in all
 * rows would make scrolling slow: Chromium computes their styles separately, and takes longer with each link that it
 * has seen.
 */
function LineLink({ number, line: { key }, look }: Pick<RowProps, 'number' | 'line' | 'look'>) {
  const [pointed, setPointed] = useState(false)
  return (
    <span
      className="w-[52px] shrink-0 select-none pr-3 text-right text-muted"
      onPointerEnter={() => setPointed(true)}
      onPointerLeave={() => setPointed(false)}
    >
      {key !== null && (pointed || look.tabbable) ? (
        <a
          href={`#${key}`}
          aria-label={`Link to line ${number + 1}`}
          className="hover:text-accent hover:underline"
          onClick={() => look.onLink(key)}
        >
          {number + 1}
        </a>
      ) : (
        key !== null && number + 1
      )}
    </span>
  )
}
