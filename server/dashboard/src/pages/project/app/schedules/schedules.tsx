import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { schedulesQuery } from '../../../../data/queries.ts'
import type { Schedule } from '../../../../data/run/runs.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { type Column, Table } from '../../../../ui/display/table.tsx'
import { Time } from '../../../../ui/display/time.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { Empty } from '../../../../ui/page/states.tsx'
import type { AppOfPage } from '../app-of-page.ts'
import { CommandText } from '../runs/command-text.tsx'
import { EditSchedule } from './edit-schedule.tsx'
import { ScheduleMenu } from './schedule-menu.tsx'

/** The schedules of an app, from the dashboard and from `fairlead.json`. */
export function Schedules() {
  const app = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const schedules = useQuery(schedulesQuery(app.projectId, app.appId))
  const [creating, setCreating] = useState(false)
  return (
    <Panel
      title="Schedules"
      flush
      actions={
        <Button size="small" variant="primary" icon={<Plus size={15} />} onClick={() => setCreating(true)}>
          New schedule
        </Button>
      }
    >
      <QueryView query={schedules} label="the schedules">
        {(data) => (
          <Table
            label="Schedules"
            rows={data.schedules}
            keyOf={({ id }) => id}
            columns={[nameColumn(app), ...columns, actionColumn(app)]}
            empty={
              <Empty title="This app has no schedules">
                <p>
                  A schedule runs a command beside the app at certain times. They can also be in <code>cron</code> of
                  the repository's <code>fairlead.json</code>.
                </p>
              </Empty>
            }
          />
        )}
      </QueryView>
      {creating && <EditSchedule app={app} onClose={() => setCreating(false)} />}
    </Panel>
  )
}

const nameColumn = ({ projectId, appId }: AppOfPage): Column<Schedule> => ({
  title: 'Name',
  cell: ({ id, name, from_file }) => (
    <>
      <Link
        to="/projects/$projectId/apps/$appId/schedules/$scheduleId"
        params={{ projectId, appId, scheduleId: id }}
        className="font-medium hover:text-accent"
      >
        {name}
      </Link>
      {from_file && <p className="text-[13px] text-muted">of fairlead.json</p>}
    </>
  ),
})

const columns: readonly Column<Schedule>[] = [
  {
    title: 'Times',
    cell: ({ schedule, timezone }) => (
      <>
        <code className="whitespace-nowrap">{schedule}</code>
        <p className="text-[13px] text-muted">{timezone}</p>
      </>
    ),
  },
  { title: 'Command', wideOnly: true, cell: ({ command }) => <CommandText words={command} /> },
  { title: 'Next', align: 'right', cell: ({ next_at }) => <Time at={next_at} /> },
]

const actionColumn = (app: AppOfPage): Column<Schedule> => ({
  title: 'Action',
  align: 'right',
  cell: (schedule) => (schedule.from_file ? null : <ScheduleMenu app={app} schedule={schedule} />),
})
