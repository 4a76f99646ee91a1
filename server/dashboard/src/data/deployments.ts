import type { ResponseBody } from '@fairlead/server/client'

export type Deployment = ResponseBody<'deployments.get'>
export type App = ResponseBody<'apps.get'>
export type AppVariables = ResponseBody<'variables.list'>
export type Release = ResponseBody<'activity.list'>['releases'][number]
/** A release in the list of its app. */
export type AppRelease = ResponseBody<'releases.list'>['releases'][number]
/** The states to filter releases by. */
export const statuses = [
  'building',
  'running',
  'failed',
  'canceled',
  'superseded',
  'stopped',
] as const satisfies readonly AppRelease['status'][]
export type Step = Deployment['steps'][number]
type Outcome = ResponseBody<'activity.outcomes'>['outcomes'][number]

export interface Day extends Omit<Outcome, 'at'> {
  /** The date, such as `Nov 21`. */
  readonly label: string
}

/** Adds up the outcomes of the last `days` days in the browser's time zone, oldest day first. */
export function outcomesByDay(outcomes: readonly Outcome[], days: number, now: Date): Day[] {
  const format = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' })
  return Array.from({ length: days }, (_, index) => {
    // Not a number of hours: some days have 23 or 25.
    const midnight = (after: number) =>
      new Date(now.getFullYear(), now.getMonth(), now.getDate() - (days - 1 - index) + after).getTime()
    const [from, to] = [midnight(0), midnight(1)]
    const ofDay = outcomes.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) < to)
    const sum = (part: 'succeeded' | 'failed' | 'other') => ofDay.reduce((total, each) => total + each[part], 0)
    return { label: format.format(from), succeeded: sum('succeeded'), failed: sum('failed'), other: sum('other') }
  })
}
