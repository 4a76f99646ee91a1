import type { ResponseBody } from '@fairlead/server/client'

export type Run = ResponseBody<'runs.list'>['runs'][number]
export type Schedule = ResponseBody<'schedules.get'>

/** Returns how a command ended, such as `exit status 1`; empty while it has not, or when its state says all. */
export function textOfEnd({ exit_code, signal }: Pick<Run, 'exit_code' | 'signal'>): string {
  if (exit_code !== null) return `exit status ${exit_code}`
  return signal === null ? '' : `ended by ${signal}`
}
