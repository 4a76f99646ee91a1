import type { ResponseBody } from '@fairlead/server/client'

export type DeploymentItem = ResponseBody<'deployments.list'>['deployments'][number]

export interface AppSummary {
  readonly name: string
  readonly url: string
  /** The newest deployment. */
  readonly latest: DeploymentItem
  /** The one that has the address. */
  readonly serving: DeploymentItem | undefined
}

/** The apps behind a list of deployments, newest first as the list is. */
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
  /** Such as `Nov 21`. */
  readonly label: string
  readonly succeeded: number
  readonly failed: number
  readonly other: number
}

/** How the deployments of the last days ended, oldest day first, in the browser's own days. */
export function outcomesByDay(deployments: readonly DeploymentItem[], days: number, now: Date): Day[] {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime()
  const format = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' })
  return Array.from({ length: days }, (_, index) => {
    const from = midnight - (days - 1 - index) * dayMs
    const of = deployments.filter(({ created_at }) => {
      const at = Date.parse(created_at)
      return at >= from && at < from + dayMs
    })
    const failed = of.filter(({ status }) => status === 'failed').length
    const succeeded = of.filter(({ status }) => ['running', 'superseded', 'stopped'].includes(status)).length
    return { label: format.format(from), succeeded, failed, other: of.length - failed - succeeded }
  })
}
