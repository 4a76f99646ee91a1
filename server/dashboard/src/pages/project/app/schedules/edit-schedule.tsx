import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../../../data/client.ts'
import { textOfWords, wordsOf } from '../../../../data/run/command-words.ts'
import type { Schedule } from '../../../../data/run/runs.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField, TextField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { fieldProblem, sentTexts, textOf } from '../../../../ui/forms/values.ts'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { CommandField } from '../runs/command-field.tsx'

interface EditScheduleProps {
  readonly app: AppOfPage
  /** The schedule to change; without it, the form makes a new schedule. */
  readonly schedule?: Schedule
  readonly onClose: () => void
}

/** The choices for a time that comes while the command of an earlier time still runs. */
export const overlaps = { forbid: 'Skip the time', allow: 'Run both', replace: 'End the earlier one' } as const
type Overlap = keyof typeof overlaps
const isOverlap = (value: string): value is Overlap => value in overlaps

/** Makes a schedule, or changes one. */
export function EditSchedule({ app, schedule, onClose }: EditScheduleProps) {
  const save = useSave(app, schedule, onClose)
  return (
    <Dialog
      open
      onClose={onClose}
      title={schedule === undefined ? 'New schedule' : `Change ${schedule.name}`}
      description="Runs a command beside the app, in the release that serves it at that time."
    >
      <Form mutation={save} saved={schedule && savedOf(schedule)} submit="Save" onCancel={onClose}>
        <TextField label="Name" name="name" autoComplete="off" placeholder="nightly" />
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField
            label="Times"
            name="schedule"
            autoComplete="off"
            placeholder="30 4 * * 1-5"
            className="font-mono"
            hint="Minute, hour, day of the month, month, day of the week."
          />
          <TextField
            label="Time zone"
            name="timezone"
            autoComplete="off"
            list="time-zones"
            defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone}
          />
          <datalist id="time-zones">
            {['UTC', ...Intl.supportedValuesOf('timeZone')].map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </div>
        <CommandField placeholder="npm run report" hint="No shell reads it: for one, use sh -c '…'." />
        <SelectField label="While the command still runs" name="overlap" defaultValue="forbid">
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

const savedOf = ({ name, schedule, timezone, command, overlap }: Schedule) => ({
  name,
  schedule,
  timezone,
  command: textOfWords(command),
  overlap,
})

function commandOf(values: FormData): string[] {
  const command = wordsOf(textOf(values, 'command'))
  if (command === null) throw fieldProblem('command', 'A quote is not closed.')
  return command
}

function useSave(app: AppOfPage, schedule: Schedule | undefined, onDone: () => void) {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: async (values: FormData) => {
      const overlap = textOf(values, 'overlap')
      const chosen = isOverlap(overlap) && { overlap }
      if (schedule === undefined) {
        const [name, times, timezone] = [textOf(values, 'name'), textOf(values, 'schedule'), textOf(values, 'timezone')]
        const body = { name, schedule: times, timezone, command: commandOf(values), ...chosen }
        return api.schedules.create({ params: paramsOf(app), body })
      }
      const texts = sentTexts(values, ['name', 'schedule', 'timezone'])
      const command = values.has('command') && { command: commandOf(values) }
      return api.schedules.update({
        params: { ...paramsOf(app), id: schedule.id },
        body: { ...texts, ...command, ...chosen },
      })
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({
        queryKey: ['projects', app.projectId, 'apps', app.appId, 'schedules'],
      })
      onDone()
    },
  })
}
