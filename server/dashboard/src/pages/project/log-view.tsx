import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDownToLine, Download, Pause } from 'lucide-react'
import { useEffect, useMemo, useRef, useState } from 'react'
import { useLog } from '../../data/log.ts'
import type { LogLine } from '../../data/log-line.ts'
import { AnsiLine } from '../../ui/ansi.tsx'
import { Button } from '../../ui/button.tsx'
import { inputClass } from '../../ui/field.tsx'
import { Panel } from '../../ui/page.tsx'
import { Problem } from '../../ui/states.tsx'

interface LogViewProps {
  readonly projectId: string
  readonly deploymentId: string
}

const lineHeight = 20
const nearEnd = 3 * lineHeight
const clock = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' })

/** The log of a deployment as it grows: followed until the reader scrolls up, searchable, to be kept as a file. */
export function LogView({ projectId, deploymentId }: LogViewProps) {
  const { lines, ended, error } = useLog(projectId, deploymentId)
  const [search, setSearch] = useState('')
  const [following, setFollowing] = useState(true)
  const shown = useMemo(() => {
    const wanted = search.toLowerCase()
    return wanted === '' ? lines : lines.filter(({ text }) => text.toLowerCase().includes(wanted))
  }, [lines, search])

  const timed = useMemo(() => lines.some(({ at }) => at !== null), [lines])

  const scroller = useRef<HTMLElement>(null)
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => lineHeight,
    overscan: 20,
  })
  useEffect(() => {
    if (following && shown.length > 0) rows.scrollToIndex(shown.length - 1, { align: 'end' })
  }, [following, shown.length, rows])

  const onScroll = () => {
    const box = scroller.current
    if (box !== null) setFollowing(box.scrollHeight - box.scrollTop - box.clientHeight < nearEnd)
  }
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
            className={`${inputClass} !h-7 !w-40`}
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
        <div className="relative min-w-max" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ key, index, start }) => (
            <Line key={key} line={shown[index]} top={start} timed={timed} />
          ))}
        </div>
        {shown.length === 0 && (
          <p className="px-4 text-muted">
            {search !== '' ? 'No line holds this text.' : ended ? 'The log is empty.' : 'Waiting for the first line…'}
          </p>
        )}
      </section>
    </Panel>
  )
}

interface LineProps {
  readonly line: LogLine | undefined
  readonly top: number
  /** Whether the log knows times at all. */
  readonly timed: boolean
}

function Line({ line, top, timed }: LineProps) {
  if (line === undefined) return null
  return (
    <div
      style={{ transform: `translateY(${top}px)` }}
      className="absolute top-0 left-0 flex h-5 w-full gap-3 px-4 whitespace-pre"
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
