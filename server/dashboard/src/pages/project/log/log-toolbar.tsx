import { ArrowDownToLine, Download, Maximize2, Pause, WrapText } from 'lucide-react'
import { Tabs } from 'radix-ui'
import { isNamed } from '../../../data/log/log-line.ts'
import type { useLogSearch } from '../../../data/log/use-log-search.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { inputClass } from '../../../ui/forms/field.tsx'

export type Stream = 'all' | 'build' | 'runtime'

/** The lines that the user wants to see. */
export interface Show {
  readonly stream: Stream
  /** A process type or an instance; empty for all. */
  readonly process: string
  readonly level: 'all' | 'warning' | 'error'
  readonly query: string
}

const streams: readonly (readonly [Stream, string])[] = [
  ['all', 'All'],
  ['build', 'Build'],
  ['runtime', 'Runtime'],
]

export function LogTabs() {
  return (
    <Tabs.List aria-label="Part of the log" className="flex gap-1 border-line border-b px-3">
      {streams.map(([value, label]) => (
        <Tabs.Trigger
          key={value}
          value={value}
          className="-mb-px border-transparent border-b-2 px-2.5 py-1.5 text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
        >
          {label}
        </Tabs.Trigger>
      ))}
    </Tabs.List>
  )
}

interface Toggles {
  readonly wrap: boolean
  readonly setWrap: (wrap: boolean) => void
  readonly fullHeight: boolean
  readonly setFullHeight: (fullHeight: boolean) => void
  readonly following: boolean
  readonly setFollowing: (following: boolean) => void
}

interface LogToolbarProps {
  readonly show: Show
  /** The instances that have printed lines. */
  readonly processes: readonly string[]
  readonly onShow: (show: Show) => void
  readonly found: ReturnType<typeof useLogSearch>
  readonly toggles: Toggles
  readonly onDownload: () => void
}

export function LogToolbar({ show, processes, onShow, found, toggles, onDownload }: LogToolbarProps) {
  const { wrap, setWrap, fullHeight, setFullHeight, following, setFollowing } = toggles
  return (
    <>
      <span role="status" className="text-[13px] text-muted">
        {(show.query !== '' || show.level !== 'all') && countText(found)}
      </span>
      <input
        type="search"
        aria-label="Search the log"
        placeholder="Search"
        className={`${inputClass} !h-7 !w-24 sm:!w-40`}
        value={show.query}
        onChange={(event) => onShow({ ...show, query: event.target.value })}
      />
      {isNamed(processes) && show.stream === 'runtime' && (
        <ProcessSelect show={show} processes={processes} onShow={onShow} />
      )}
      <select
        aria-label="Level"
        className={`${inputClass} !h-7 !w-auto`}
        value={show.level}
        onChange={(event) => onShow({ ...show, level: event.target.value as Show['level'] })}
      >
        <option value="all">All levels</option>
        <option value="warning">Warnings and errors</option>
        <option value="error">Errors</option>
      </select>
      <Button size="small" aria-pressed={wrap} icon={<WrapText size={14} />} onClick={() => setWrap(!wrap)}>
        Wrap
      </Button>
      <Button
        size="small"
        aria-pressed={fullHeight}
        icon={<Maximize2 size={14} />}
        onClick={() => setFullHeight(!fullHeight)}
      >
        Full height
      </Button>
      <Button
        size="small"
        aria-pressed={following}
        icon={following ? <Pause size={14} /> : <ArrowDownToLine size={14} />}
        onClick={() => setFollowing(!following)}
      >
        {following ? 'Pause' : 'Follow'}
      </Button>
      <Button size="small" icon={<Download size={14} />} onClick={onDownload}>
        Download
      </Button>
    </>
  )
}

/** The process types, and their instances if a type has several. */
function ProcessSelect({ show, processes, onShow }: Pick<LogToolbarProps, 'show' | 'processes' | 'onShow'>) {
  const types = Map.groupBy(processes, (name) => name.slice(0, name.lastIndexOf('.')))
  const known = [...types].flatMap(([type, names]) => (names.length > 1 ? [type, ...names] : [type]))
  return (
    <select
      aria-label="Process"
      className={`${inputClass} !h-7 !w-auto`}
      value={show.process}
      onChange={(event) => onShow({ ...show, process: event.target.value })}
    >
      <option value="">All processes</option>
      {known.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  )
}

function countText({ matches, done }: LogToolbarProps['found']): string {
  const count = matches.length.toLocaleString('en')
  if (!done) return `${count} so far…`
  return matches.length === 1 ? '1 line' : `${count} lines`
}
