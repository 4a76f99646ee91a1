import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../../data/client.ts'
import { textOfWords, wordsOf } from '../../../../data/run/command-words.ts'
import type { Schedule } from '../../../../data/run/runs.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField, TextField } from '../../../../ui/forms/field.tsx'
import { Form, textOf } from '../../../../ui/forms/form.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { CommandField } from '../runs/command-field.tsx'

interface EditScheduleProps {
  readonly app: AppOfPage
  /** The schedule to change; without it, one is made. */
  readonly schedule?: Schedule
  readonly onClose: () => void
}

/** The choices for a time that comes while the command of an earlier one still runs. */
export const overlaps = { forbid: 'Skip the time', allow: 'Run both', replace: 'End the earlier one' } as const
type Overlap = keyof typeof overlaps
const isOverlap = (value: string): value is Overlap => value in overlaps

/** Makes a schedule, or changes one. */
export function EditSchedule({ app, schedule, onClose }: EditScheduleProps) {
  const [problem, setProblem] = useState<string>()
  const save = useSave(app, schedule, onClose)
  const mutate = (values: FormData) => {
    const command = wordsOf(textOf(values, 'command'))
    setProblem(command === null ? 'A quote is not closed.' : undefined)
    if (command === null) return
    const overlap = textOf(values, 'overlap')
    save.mutate({
      name: textOf(values, 'name'),
      schedule: textOf(values, 'schedule'),
      timezone: textOf(values, 'timezone'),
      command,
      ...(isOverlap(overlap) && { overlap }),
    })
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title={schedule === undefined ? 'New schedule' : `Change ${schedule.name}`}
      description="Runs a command beside the app, in the release that serves it then."
    >
      <Form mutation={{ ...save, mutate }} submit="Save" onCancel={onClose}>
        <TextField label="Name" name="name" autoComplete="off" defaultValue={schedule?.name} placeholder="nightly" />
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField
            label="Times"
            name="schedule"
            autoComplete="off"
            defaultValue={schedule?.schedule}
            placeholder="30 4 * * 1-5"
            className="font-mono"
            hint="Minute, hour, day of the month, month, day of the week."
          />
          <TextField
            label="Time zone"
            name="timezone"
            autoComplete="off"
            list="time-zones"
            defaultValue={schedule?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone}
          />
          <datalist id="time-zones">
            {['UTC', ...Intl.supportedValuesOf('timeZone')].map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </div>
        <CommandField
          defaultValue={schedule === undefined ? undefined : textOfWords(schedule.command)}
          placeholder="npm run report"
          error={problem}
          hint="No shell reads it: for one, use sh -c '…'."
        />
        <SelectField label="While the command still runs" name="overlap" defaultValue={schedule?.overlap ?? 'forbid'}>
          {Object.entries(overlaps).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </SelectField>
      </Form>
    </Dialog>
  )
}

type Wanted = Parameters<typeof api.schedules.create>[0]['body']

function useSave(app: AppOfPage, schedule: Schedule | undefined, onDone: () => void) {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: (body: Wanted) =>
      schedule === undefined
        ? api.schedules.create({ params: paramsOf(app), body })
        : api.schedules.update({ params: { ...paramsOf(app), id: schedule.id }, body }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({
        queryKey: ['projects', app.projectId, 'apps', app.appId, 'schedules'],
      })
      onDone()
    },
  })
}
