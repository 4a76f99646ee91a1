import { useMemo } from 'react'
import type { LogLine } from '../../../data/log/log-line.ts'
import { AnsiLine } from '../../../ui/display/ansi-line.tsx'

/** The height of a row in pixels. */
export const rowHeight = 20
const timeFormat = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' })

interface LogRowsProps {
  /** All lines of the log. */
  readonly lines: readonly LogLine[]
  /** The number of rows, drawn or not. */
  readonly count: number
  /** The index of the first row that is drawn. */
  readonly from: number
  /** The rows that are drawn. */
  readonly visible: readonly { readonly number: number; readonly line: LogLine }[]
}

/** The visible rows of a log at their positions in a space that is high enough for all rows. */
export function LogRows({ lines, count, from, visible }: LogRowsProps) {
  const timed = useMemo(() => lines.some(({ at }) => at !== null), [lines])
  return (
    <div className="relative min-w-max" style={{ height: count * rowHeight }}>
      {visible.map(({ number, line }, index) => (
        <Row key={number} line={line} top={(from + index) * rowHeight} timed={timed} />
      ))}
    </div>
  )
}

interface RowProps {
  readonly line: LogLine
  readonly top: number
  /** True when any line of the log has a time. */
  readonly timed: boolean
}

function Row({ line, top, timed }: RowProps) {
  return (
    <div
      style={{ transform: `translateY(${top}px)` }}
      className="absolute top-0 left-0 flex h-[20px] w-full gap-3 px-4 whitespace-pre"
    >
      {timed && (
        <span className="w-24 shrink-0 select-none text-muted" title={line.at ?? undefined}>
          {line.at === null ? '' : timeFormat.format(new Date(line.at))}
        </span>
      )}
      <span>
        <AnsiLine text={line.text} />
      </span>
    </div>
  )
}
