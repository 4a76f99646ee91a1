import type { Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { isTimezone, nextTime, problemOfSchedule } from '../platform/time/cron.ts'
import { deleteOthersOfFile, findByName, insertSchedule, updateSchedule } from './schedule-rows.ts'

/** A schedule as `fairlead.json` has it. */
interface FileSchedule {
  readonly name: string
  readonly schedule: string
  readonly timezone: string
  readonly command: readonly string[]
  readonly overlap: 'forbid' | 'allow' | 'replace'
}

/**
 * Makes the schedules of an app those of the release that begins to serve it: its file's are made, changed and removed, and
 * those that were made by requests stay unless the file has one of the same name. A schedule whose times never come is left
 * out. The file has at most 20, which count in the total of the account but are not refused by it.
 */
export async function applyFile(
  transaction: Transaction,
  app: { readonly app_id: string; readonly project_id: string; readonly account_id: string },
  { cron = [] }: { readonly cron?: readonly FileSchedule[] },
): Promise<void> {
  const valid = cron.filter(
    ({ schedule, timezone }) => problemOfSchedule(schedule) === undefined && isTimezone(timezone),
  )
  const names = valid.map(({ name }) => name)
  await deleteOthersOfFile(transaction, app.app_id, names)
  for (const { command, ...times } of valid) {
    const next = nextTime(times, new Date())
    if (next === null) continue
    const values = { ...times, command: JSON.stringify(command), from_file: true }
    const before = await findByName(transaction, app.app_id, times.name)
    if (before === undefined) {
      const { app_id, project_id, account_id } = app
      const id = newId('schedule')
      await insertSchedule(transaction, { id, app_id, project_id, account_id, ...values, next_at: next })
      continue
    }
    // A time that has come and was not taken yet still comes.
    const isSame = before.schedule === times.schedule && before.timezone === times.timezone
    await updateSchedule(transaction, before.id, { ...values, next_at: isSame ? before.next_at : next })
  }
}
