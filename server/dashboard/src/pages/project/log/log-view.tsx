import { useLocation } from '@tanstack/react-router'
import { Tabs } from 'radix-ui'
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import type { LogFilter } from '../../../data/log/log-search.ts'
import { type LogSource, useLog } from '../../../data/log/use-log.ts'
import { useLogSearch } from '../../../data/log/use-log-search.ts'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryError } from '../../../ui/page/states.tsx'
import { LogBox } from './log-box.tsx'
import { downloadLog } from './log-download.ts'
import { LogTabs, LogToolbar, type Show, type Stream } from './log-toolbar.tsx'

interface LogViewProps {
  readonly source: LogSource
  /** Describes a release where its lines begin in the log of an app. */
  readonly describeRelease?: (deploymentId: string) => ReactNode
}

/**
 * A log. It scrolls with new lines until the user scrolls up. It can be filtered by stream, level and text, and
 * wrapped; each line has a link.
 */
export function LogView({ source, describeRelease = (id) => id }: LogViewProps) {
  const log = useLog(source)
  const [show, setShow] = useState<Show>(showAll)
  const filter = useFilter(show)
  const found = useLogSearch(log, filter)
  const [following, setFollowing] = useState(true)
  const [wrap, setWrap] = useState(false)
  const [fullHeight, setFullHeight] = useState(false)
  const panel = useRef<HTMLDivElement>(null)
  const { linked, jump, jumpTo } = useLinkedLine()
  useEffect(() => {
    if (fullHeight) panel.current?.scrollIntoView()
  }, [fullHeight])
  const onLink = (key: string) => {
    setShow(showAll)
    jumpTo(key)
  }
  return (
    <Tabs.Root
      ref={panel}
      value={show.stream}
      onValueChange={(stream) => setShow({ ...show, stream: stream as Stream, process: '' })}
      className="min-w-0 scroll-mt-2"
    >
      <Panel
        title="Log"
        flush
        actions={
          <LogToolbar
            show={show}
            processes={log.processes}
            onShow={setShow}
            found={found}
            toggles={{ wrap, setWrap, fullHeight, setFullHeight, following, setFollowing }}
            onDownload={() => downloadLog(source.id, log.lines)}
          />
        }
      >
        <QueryError error={log.error} />
        <LogTabs />
        <Tabs.Content value={show.stream} tabIndex={-1}>
          <LogBox
            log={log}
            filter={filter}
            found={found}
            following={following}
            onFollow={setFollowing}
            wrap={wrap}
            fullHeight={fullHeight}
            linked={linked}
            jump={jump}
            onLink={onLink}
            describeRelease={describeRelease}
          />
        </Tabs.Content>
      </Panel>
    </Tabs.Root>
  )
}

const showAll: Show = { stream: 'all', process: '', level: 'all', query: '' }

function useFilter({ stream, process, level, query }: Show): LogFilter {
  return useMemo(
    () => ({
      text: query.toLowerCase(),
      stream: stream === 'all' ? undefined : stream,
      process: process === '' ? undefined : process,
      level: level === 'all' ? undefined : level,
    }),
    [stream, process, level, query],
  )
}

/** The line that the address of the page names after its `#`. */
function useLinkedLine() {
  const linked = useLocation({ select: ({ hash }) => hash })
  const [jump, setJump] = useState<{ readonly key: string } | null>(null)
  useEffect(() => setJump(linked === '' ? null : { key: linked }), [linked])
  return { linked, jump, jumpTo: (key: string) => setJump({ key }) }
}
