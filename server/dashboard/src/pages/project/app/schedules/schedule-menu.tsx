import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { schedulesQuery } from '../../../../data/queries.ts'
import type { Schedule } from '../../../../data/run/runs.ts'
import { writeQuery } from '../../../../data/write-query.ts'
import { Menu, MenuItem } from '../../../../ui/controls/menu.tsx'
import { ConfirmDialog } from '../../../../ui/dialogs/confirm-dialog.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { EditSchedule } from './edit-schedule.tsx'

interface ScheduleMenuProps {
  readonly app: AppOfPage
  readonly schedule: Schedule
}

/** Changes and deletes a schedule that was made here. */
export function ScheduleMenu({ app, schedule }: ScheduleMenuProps) {
  const [opened, setOpened] = useState<'change' | 'delete'>()
  const close = () => setOpened(undefined)
  return (
    <>
      <Menu label={`Actions for ${schedule.name}`}>
        <MenuItem onSelect={() => setOpened('change')}>Change</MenuItem>
        <MenuItem danger onSelect={() => setOpened('delete')}>
          Delete
        </MenuItem>
      </Menu>
      {opened === 'change' && <EditSchedule app={app} schedule={schedule} onClose={close} />}
      {opened === 'delete' && <DeleteSchedule app={app} schedule={schedule} onClose={close} />}
    </>
  )
}

function DeleteSchedule({ app, schedule, onClose }: ScheduleMenuProps & { readonly onClose: () => void }) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutation({
    mutationFn: () => api.schedules.delete({ params: { ...paramsOf(app), id: schedule.id } }),
    onSuccess: async () => {
      await writeQuery(queryClient, schedulesQuery(app.projectId, app.appId), (list) =>
        list === undefined ? list : { schedules: list.schedules.filter(({ id }) => id !== schedule.id) },
      )
      await navigate({ to: '/projects/$projectId/apps/$appId/schedules', params: app })
    },
  })
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Delete the schedule ${schedule.name}?`}
      action="Delete schedule"
      mutation={remove}
    >
      <p>A run that is under way goes on, and its runs stay in the history of the app.</p>
    </ConfirmDialog>
  )
}
