import type { ResponseBody } from '@fairlead/server/client'

export type Run = ResponseBody<'runs.list'>['runs'][number]
export type Schedule = ResponseBody<'schedules.get'>

/** Returns how a command ended, such as `exit status 1`; empty while it runs, or when its state is enough. */
export function textOfEnd({ exit_code, signal }: Pick<Run, 'exit_code' | 'signal'>): string {
  if (exit_code !== null) return `exit status ${exit_code}`
  return signal === null ? '' : `ended by ${signal}`
}
