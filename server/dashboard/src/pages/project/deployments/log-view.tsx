import { ArrowDownToLine, Download, Pause } from 'lucide-react'
import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { LogLine } from '../../../data/log/log-line.ts'
import type { Hit } from '../../../data/log/log-search.ts'
import { useLog } from '../../../data/log/use-log.ts'
import { useSearch } from '../../../data/log/use-log-search.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { AnsiLine } from '../../../ui/display/ansi-line.tsx'
import { useVisibleRows } from '../../../ui/display/visible-rows.ts'
import { inputClass } from '../../../ui/forms/field.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { Problem } from '../../../ui/page/states.tsx'

interface LogViewProps {
  readonly projectId: string
  readonly deploymentId: string
}

const lineHeight = 20
const nearEnd = 3 * lineHeight
const clock = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' })

/** The log of a deployment as it grows: followed until the reader scrolls up, searchable, to be kept as a file. */
export function LogView({ projectId, deploymentId }: LogViewProps) {
  const log = useLog(projectId, deploymentId)
  const { lines, first, ended, error } = log
  const [search, setSearch] = useState('')
  const [following, setFollowing] = useState(true)
  const { hits, done } = useSearch(log, search)
  const searching = search !== ''
  const count = searching ? hits.length : lines.length
  const timed = useMemo(() => lines.some(({ at }) => at !== null), [lines])

  const scroller = useRef<HTMLElement>(null)
  const { from, to, look } = useVisibleRows(scroller, lineHeight)
  const firstShown = useRef(first)
  useLayoutEffect(() => {
    const box = scroller.current
    if (box === null) return
    const forgotten = first - firstShown.current
    firstShown.current = first
    // Whoever reads is not carried away when lines above go.
    if (!following) box.scrollTop -= searching ? 0 : forgotten * lineHeight
    else if (count > 0) box.scrollTop = box.scrollHeight
    look()
  }, [following, searching, count, first, look])

  const onScroll = () => {
    const box = scroller.current
    if (box !== null) setFollowing(box.scrollHeight - box.scrollTop - box.clientHeight < nearEnd)
    look()
  }
  const visible: readonly Hit[] = searching
    ? hits.slice(from, to)
    : lines.slice(from, to).map((line, index) => ({ number: first + from + index, line }))
  return (
    <Panel
      title="Log"
      flush
      actions={
        <>
          <input
            type="search"
            aria-label="Search the log"
            placeholder="Search"
            className={`${inputClass} !h-7 !w-24 sm:!w-40`}
            value={search}
            onChange={(event) => setSearch(event.target.value)}
          />
          <Button
            size="small"
            aria-pressed={following}
            icon={following ? <Pause size={14} /> : <ArrowDownToLine size={14} />}
            onClick={() => setFollowing(!following)}
          >
            {following ? 'Pause' : 'Follow'}
          </Button>
          <Button size="small" icon={<Download size={14} />} onClick={() => download(deploymentId, lines)}>
            Download
          </Button>
        </>
      }
    >
      {error !== null && (
        <div className="p-3">
          <Problem error={error} />
        </div>
      )}
      <section
        ref={scroller}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
        tabIndex={0}
        aria-label="Lines of the log"
        onScroll={onScroll}
        className="h-[26rem] overflow-auto bg-canvas py-2 font-mono text-[12.5px] leading-5"
      >
        <div className="relative min-w-max" style={{ height: count * lineHeight }}>
          {visible.map(({ number, line }, index) => (
            <Line key={number} line={line} top={(from + index) * lineHeight} timed={timed} />
          ))}
        </div>
        {count === 0 && <p className="px-4 text-muted">{nothing(searching, done, ended)}</p>}
      </section>
    </Panel>
  )
}

function nothing(searching: boolean, done: boolean, ended: boolean): string {
  if (searching) return done ? 'No line holds this text.' : 'Searching…'
  return ended ? 'The log is empty.' : 'Waiting for the first line…'
}

interface LineProps {
  readonly line: LogLine
  readonly top: number
  /** Whether the log knows times at all. */
  readonly timed: boolean
}

function Line({ line, top, timed }: LineProps) {
  return (
    <div
      style={{ transform: `translateY(${top}px)` }}
      className="absolute top-0 left-0 flex h-[20px] w-full gap-3 px-4 whitespace-pre"
    >
      {timed && (
        <span className="w-24 shrink-0 select-none text-muted" title={line.at ?? undefined}>
          {line.at === null ? '' : clock.format(new Date(line.at))}
        </span>
      )}
      <span>
        <AnsiLine text={line.text} />
      </span>
    </div>
  )
}

function download(deploymentId: string, lines: readonly LogLine[]): void {
  const text = lines.map(({ at, text: line }) => (at === null ? line : `${at} ${line}`)).join('\n')
  const url = URL.createObjectURL(new Blob([`${text}\n`], { type: 'text/plain' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `${deploymentId}.log`
  link.click()
  URL.revokeObjectURL(url)
}
