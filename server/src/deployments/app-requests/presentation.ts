import type { ResponseBody } from '../../contract/operations.ts'
import type { UrlOf } from '../state/announce.ts'
import type { OwnedApp } from '../state/apps.ts'
import { imageOf, repositoryOf } from '../state/source/source-of.ts'
import { lastRequestOf } from '../state/steps.ts'
import type { DeploymentRow } from '../state/tables.ts'

type Release = ResponseBody<'releases.list'>['releases'][number]

export function releaseOf(row: DeploymentRow): Release {
  const { started_at: begun, finished_at: ended } = row
  return {
    id: row.id,
    status: row.status,
    git_url: repositoryOf(row),
    image: imageOf(row),
    branch: row.branch,
    commit: commitOf(row),
    trigger: triggerOf(row),
    kept: row.retained,
    failure: row.failure && { suggestions: [], ...row.failure },
    created_at: row.created_at.toISOString(),
    started_at: begun?.toISOString() ?? null,
    finished_at: ended?.toISOString() ?? null,
    duration_ms: begun === null || ended === null ? null : Math.max(0, ended.getTime() - begun.getTime()),
  }
}

function commitOf({ commit, commit_details: details }: DeploymentRow): Release['commit'] {
  if (commit === null) return null
  return { hash: commit, message: details?.message ?? null, author: details?.author ?? null, at: timeOf(details?.at) }
}

/** Returns the time of a commit in UTC; null when git does not know it, or it is in no year that RFC 3339 has. */
function timeOf(at: string | undefined): string | null {
  const time = new Date(at ?? '')
  const isKnown = !Number.isNaN(time.getTime()) && time.getUTCFullYear() >= 0 && time.getUTCFullYear() < 10_000
  return isKnown ? time.toISOString() : null
}

function triggerOf(row: DeploymentRow): Release['trigger'] {
  const request = lastRequestOf(row)
  if (request !== null) return { ...request.by, by: request.by.kind, kind: request.kind }
  return { ...row.triggered_by, by: row.triggered_by.kind }
}

/** Shows an app with its releases and domains; there is always a latest one, because an app is deleted with its last deployment. */
export function appView(
  app: OwnedApp,
  its: {
    readonly serving: DeploymentRow | undefined
    readonly latest: DeploymentRow
    readonly domains: readonly string[]
  },
  urlOf: UrlOf,
): ResponseBody<'apps.get'> {
  return {
    id: app.id,
    name: app.name,
    url: urlOf(app),
    domains: [...its.domains],
    serving: its.serving === undefined ? null : releaseOf(its.serving),
    latest: releaseOf(its.latest),
    created_at: app.createdAt.toISOString(),
  }
}
