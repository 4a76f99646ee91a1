import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { isClientError } from '../../../../data/client.ts'
import { scheduleQuery } from '../../../../data/queries.ts'
import type { Schedule as ScheduleData } from '../../../../data/run/runs.ts'
import { DescriptionList } from '../../../../ui/display/description-list.tsx'
import { ExactTime, Time } from '../../../../ui/display/time.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { CommandText } from '../runs/command-text.tsx'
import { Runs } from '../runs/runs.tsx'
import { overlaps } from './edit-schedule.tsx'
import { ScheduleMenu } from './schedule-menu.tsx'

/** One schedule with its next times and its history. */
export function Schedule() {
  const { scheduleId, ...app } = useParams({ from: '/layout/projects/$projectId/apps/$appId/schedules/$scheduleId' })
  const schedule = useQuery(scheduleQuery(app.projectId, app.appId, scheduleId))
  return (
    <>
      <Link to="/projects/$projectId/apps/$appId/schedules" params={app} className="text-accent hover:underline">
        All schedules
      </Link>
      <QueryView query={schedule} label="the schedule">
        {(data) => (
          <Panel title={data.name} actions={!data.from_file && <ScheduleMenu app={app} schedule={data} />}>
            <Details schedule={data} />
          </Panel>
        )}
      </QueryView>
      {/* The history would only repeat the error of a schedule that cannot be loaded. */}
      {schedule.isLoadingError && isClientError(schedule.error) ? null : <Runs app={app} scheduleId={scheduleId} />}
    </>
  )
}

function Details({ schedule }: { readonly schedule: ScheduleData }) {
  return (
    <div className="grid gap-4">
      {schedule.from_file && (
        <p className="text-muted">
          This schedule is in <code>cron</code> of the repository's <code>fairlead.json</code>, and can be changed there
          only: each deployment writes it again.
        </p>
      )}
      <DescriptionList
        items={[
          ['Times', <code key="times">{schedule.schedule}</code>],
          ['Time zone', schedule.timezone],
          ['Command', <CommandText key="command" words={schedule.command} />],
          ['While it still runs', overlaps[schedule.overlap]],
          [
            'Next times',
            <ul key="next">
              {schedule.next_times.map((at, index) => (
                <li key={at}>
                  <ExactTime at={at} timezone={schedule.timezone} />
                  {index === 0 && (
                    <>
                      , <Time at={at} />
                    </>
                  )}
                </li>
              ))}
            </ul>,
          ],
        ]}
      />
    </div>
  )
}
