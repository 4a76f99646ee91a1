import { ArrowDownToLine, Download, Pause } from 'lucide-react'
import { useRef, useState } from 'react'
import { type Log, useLog } from '../../../data/log/use-log.ts'
import { useLogSearch } from '../../../data/log/use-log-search.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { inputClass } from '../../../ui/forms/field.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { ErrorAlert } from '../../../ui/page/states.tsx'
import { downloadLog } from './log-download.ts'
import { LogRows, rowHeight } from './log-rows.tsx'
import { useFollowScroll } from './use-follow-scroll.ts'

interface LogViewProps {
  readonly projectId: string
  readonly deploymentId: string
}

/** The log of a deployment. It scrolls with new lines until the user scrolls up, and can be searched and downloaded. */
export function LogView({ projectId, deploymentId }: LogViewProps) {
  const log = useLog(projectId, deploymentId)
  const [query, setQuery] = useState('')
  const [following, setFollowing] = useState(true)
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
            value={query}
            onChange={(event) => setQuery(event.target.value)}
          />
          <Button
            size="small"
            aria-pressed={following}
            icon={following ? <Pause size={14} /> : <ArrowDownToLine size={14} />}
            onClick={() => setFollowing(!following)}
          >
            {following ? 'Pause' : 'Follow'}
          </Button>
          <Button size="small" icon={<Download size={14} />} onClick={() => downloadLog(deploymentId, log.lines)}>
            Download
          </Button>
        </>
      }
    >
      {log.error !== null && (
        <div className="p-3">
          <ErrorAlert error={log.error} />
        </div>
      )}
      <LogBox log={log} query={query} following={following} onFollow={setFollowing} />
    </Panel>
  )
}

interface LogBoxProps {
  readonly log: Log
  readonly query: string
  readonly following: boolean
  readonly onFollow: (following: boolean) => void
}

/** The scrolling box with the lines of the log, or with those that match the search. */
function LogBox({ log, query, following, onFollow }: LogBoxProps) {
  const { lines, first, ended } = log
  const { matches, done } = useLogSearch(log, query)
  const searching = query !== ''
  const count = searching ? matches.length : lines.length
  const box = useRef<HTMLElement>(null)
  const { from, to, onScroll } = useFollowScroll({ box, rowHeight, count, first, searching, following, onFollow })
  const visible = searching
    ? matches.slice(from, to)
    : lines.slice(from, to).map((line, index) => ({ number: first + from + index, line }))
  const empty = searching
    ? done
      ? 'No line contains this text.'
      : 'Searching…'
    : ended
      ? 'The log is empty.'
      : 'Waiting for the first line…'
  return (
    <section
      ref={box}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard.
      tabIndex={0}
      aria-label="Lines of the log"
      onScroll={onScroll}
      className="h-[26rem] overflow-auto bg-canvas py-2 font-mono text-[12.5px] leading-5"
    >
      <LogRows lines={lines} count={count} from={from} visible={visible} />
      {count === 0 && <p className="px-4 text-muted">{empty}</p>}
    </section>
  )
}
