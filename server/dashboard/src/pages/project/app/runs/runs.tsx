import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { runsQuery } from '../../../../data/queries.ts'
import { type Run, textOfEnd } from '../../../../data/run/runs.ts'
import { Status } from '../../../../ui/display/status.tsx'
import { type Column, Table } from '../../../../ui/display/table.tsx'
import { Time } from '../../../../ui/display/time.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { PagedView } from '../../../../ui/page/paged-view.tsx'
import { Empty } from '../../../../ui/page/states.tsx'
import { DeploymentDuration } from '../../deployments/deployment-duration.tsx'
import type { AppOfPage } from '../app-of-page.ts'
import { CommandText } from './command-text.tsx'
import { RunDialog } from './run-dialog.tsx'

interface RunsProps {
  readonly app: AppOfPage
  /** Only the runs of this schedule. */
  readonly scheduleId?: string
}

/** The history of the commands of an app, or of one of its schedules. Each opens with its output. */
export function Runs({ app, scheduleId }: RunsProps) {
  const runs = useInfiniteQuery(runsQuery(app.projectId, app.appId, scheduleId))
  const [opened, setOpened] = useState<string>()
  return (
    <Panel title="History" flush>
      <PagedView query={runs} label="runs">
        {(pages) => (
          <Table
            label="Runs"
            rows={pages.flatMap((page) => page.runs)}
            keyOf={({ id }) => id}
            columns={[commandColumn(setOpened), ...(scheduleId === undefined ? [begunByColumn(app)] : []), ...columns]}
            empty={<Empty title="Nothing has run yet" />}
          />
        )}
      </PagedView>
      {opened !== undefined && <RunDialog app={app} id={opened} onClose={() => setOpened(undefined)} />}
    </Panel>
  )
}

const commandColumn = (onOpen: (id: string) => void): Column<Run> => ({
  title: 'Command',
  cell: ({ id, command }) => (
    <button type="button" className="text-left hover:text-accent" onClick={() => onOpen(id)}>
      <CommandText words={command} />
    </button>
  ),
})

const begunByColumn = ({ projectId, appId }: AppOfPage): Column<Run> => ({
  title: 'Begun by',
  wideOnly: true,
  cell: ({ schedule_id, terminal }) =>
    schedule_id === null ? (
      terminal ? (
        'a terminal'
      ) : (
        'a command'
      )
    ) : (
      <Link
        to="/projects/$projectId/apps/$appId/schedules/$scheduleId"
        params={{ projectId, appId, scheduleId: schedule_id }}
        className="text-accent hover:underline"
      >
        a schedule
      </Link>
    ),
})

const columns: readonly Column<Run>[] = [
  {
    title: 'Status',
    cell: (run) => (
      <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Status value={run.status} />
        <span className="text-[13px] text-muted">{textOfEnd(run)}</span>
      </span>
    ),
  },
  {
    title: 'Duration',
    wideOnly: true,
    align: 'right',
    cell: ({ status, started_at, finished_at }) => (
      <DeploymentDuration
        deployment={{ status: status === 'waiting' ? 'building' : 'running', started_at, finished_at }}
      />
    ),
  },
  { title: 'Time', align: 'right', cell: ({ due_at, created_at }) => <Time at={due_at ?? created_at} /> },
]
