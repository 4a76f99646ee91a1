import { type RefObject, useEffect, useMemo, useRef } from 'react'
import { isNamed } from '../../../data/log/log-line.ts'
import { isFiltering, type LogFilter } from '../../../data/log/log-search.ts'
import type { Log } from '../../../data/log/use-log.ts'
import type { useLogSearch } from '../../../data/log/use-log-search.ts'
import { besideText, LogRows, type RowLook, rowHeight } from './log-rows.tsx'
import { layoutOf, type RowLayout } from './row-layout.ts'
import { useColumns } from './use-columns.ts'
import { useFollowScroll } from './use-follow-scroll.ts'

interface LogBoxProps {
  readonly log: Log
  readonly filter: LogFilter
  readonly found: ReturnType<typeof useLogSearch>
  readonly following: boolean
  readonly onFollow: (following: boolean) => void
  readonly wrap: boolean
  readonly fullHeight: boolean
  /** The key of the line that the page's address names. */
  readonly linked: string
  /** The line to scroll to when it has loaded: a new object for each request. */
  readonly jump: { readonly key: string } | null
  readonly onLink: (key: string) => void
  readonly describeRelease: RowLook['describeRelease']
}

/** With more lines than these, the keyboard does not reach each line. */
const mostTabbable = 50

/** The scrolling box with the lines of the log that match the filter. */
export function LogBox({ log, filter, found, following, onFollow, wrap, fullHeight, ...link }: LogBoxProps) {
  const { lines, first } = log
  const filtering = isFiltering(filter)
  const shown = filtering ? found.matches : null
  const count = shown?.length ?? lines.length
  const box = useRef<HTMLElement>(null)
  const timed = useMemo(() => lines.some(({ at }) => at !== null), [lines])
  const { linked, onLink, describeRelease } = link
  const named = Math.max(0, ...(isNamed(log.processes) ? log.processes : []).map(({ length }) => length))
  const columns = useColumns(box, besideText({ timed, named }), wrap)
  const layout = useMemo(
    () => layoutOf(count, (index) => (shown === null ? lines[index] : shown[index]?.line)?.text ?? '', columns),
    [count, shown, lines, columns],
  )
  const { from, to, onScroll } = useFollowScroll({ box, layout, first, filtering, following, onFollow })
  useJump({ box, log, layout, jump: filtering ? null : link.jump, onFollow })
  const fromLine = layout.lineAt(from)
  const toLine = layout.lineAt(to) + 1
  const visible =
    shown?.slice(fromLine, toLine) ??
    lines.slice(fromLine, toLine).map((line, index) => ({ number: first + fromLine + index, line }))
  const tabbable = filtering && count <= mostTabbable
  return (
    <section
      ref={box}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard.
      tabIndex={0}
      aria-label="Lines of the log"
      onScroll={onScroll}
      className={`${fullHeight ? 'h-[calc(100dvh-9rem)]' : 'h-[26rem]'} overflow-auto bg-canvas py-2 font-mono text-[12.5px] leading-[20px]`}
    >
      <LogRows
        layout={layout}
        from={fromLine}
        visible={visible}
        columns={columns}
        look={{ timed, named, mark: filter.text, linked, tabbable, onLink, describeRelease }}
      />
      {count === 0 && <p className="px-4 text-muted">{emptyText(filter, found.done, log.ended)}</p>}
    </section>
  )
}

function emptyText(filter: LogFilter, done: boolean, ended: boolean): string {
  if (!isFiltering(filter)) return ended ? 'The log is empty.' : 'Waiting for the first line…'
  if (!done) return 'Searching…'
  return filter.text === '' ? 'No such line yet.' : 'No line contains this text.'
}

interface JumpOptions {
  readonly box: RefObject<HTMLElement | null>
  readonly log: Log
  readonly layout: RowLayout
  readonly jump: LogBoxProps['jump']
  readonly onFollow: (following: boolean) => void
}

/** Scrolls to a line as soon as the log has it. */
function useJump({ box, log, layout, jump, onFollow }: JumpOptions): void {
  /** The searched line, and the position of the search. */
  const searched = useRef<{ jump: LogBoxProps['jump']; next: number }>({ jump: null, next: 0 })
  useEffect(() => {
    if (jump === null || box.current === null) return
    const { lines, first } = log
    const next = searched.current.jump === jump ? searched.current.next : 0
    const from = Math.max(0, next - first)
    const index = lines.findIndex(({ key }, at) => at >= from && key === jump.key)
    searched.current = { jump, next: index === -1 ? first + lines.length : Infinity }
    if (index === -1) return
    onFollow(false)
    const top = layout.row(index) * rowHeight
    const { scrollTop, clientHeight } = box.current
    if (top < scrollTop || top > scrollTop + clientHeight - rowHeight) box.current.scrollTop = top - clientHeight / 3
  }, [box, log, layout, jump, onFollow])
}
