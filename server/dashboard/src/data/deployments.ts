import type { ResponseBody } from '@fairlead/server/client'

export type DeploymentItem = ResponseBody<'deployments.list'>['deployments'][number]
export type Deployment = ResponseBody<'deployments.get'>

export interface AppSummary {
  readonly name: string
  readonly url: string
  /** The newest deployment. */
  readonly latest: DeploymentItem
  /** The deployment that answers requests to the URL. */
  readonly serving: DeploymentItem | undefined
}

/** Groups deployments by app. Both the list and the result have the newest first. */
export function latestByApp(deployments: readonly DeploymentItem[]): AppSummary[] {
  const byName = Map.groupBy(deployments, ({ name }) => name)
  return [...byName].flatMap(([name, releases]) => {
    const [latest] = releases
    if (latest === undefined) return []
    return [{ name, url: latest.url, latest, serving: releases.find(({ status }) => status === 'running') }]
  })
}

const dayMs = 86_400_000

export interface Day {
  /** The date, such as `Nov 21`. */
  readonly label: string
  readonly succeeded: number
  readonly failed: number
  readonly other: number
}

/** Counts the outcomes of the deployments of the last `days` days in the browser's time zone, oldest day first. */
export function outcomesByDay(deployments: readonly DeploymentItem[], days: number, now: Date): Day[] {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime()
  const format = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' })
  return Array.from({ length: days }, (_, index) => {
    const from = midnight - (days - 1 - index) * dayMs
    const ofDay = deployments.filter(({ created_at }) => {
      const at = Date.parse(created_at)
      return at >= from && at < from + dayMs
    })
    const failed = ofDay.filter(({ status }) => status === 'failed').length
    const succeeded = ofDay.filter(({ status }) => ['running', 'superseded', 'stopped'].includes(status)).length
    return { label: format.format(from), succeeded, failed, other: ofDay.length - failed - succeeded }
  })
}
