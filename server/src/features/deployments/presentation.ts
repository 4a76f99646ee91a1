import type { ResponseBody } from '../../contract/operations.ts'
import type { App, OwnedApp } from './app-directory.ts'
import type { UrlOf } from './outcome.ts'
import type { Variables } from './release-variables.ts'
import { imageOf, repositoryOf } from './source-of.ts'
import { lastRequestOf, stepsOf } from './steps.ts'
import type { DeploymentRow, DeploymentWithLatest } from './tables.ts'

export function itemOf(row: DeploymentRow, app: App, urlOf: UrlOf): ResponseBody<'deployments.create'> {
  return {
    id: row.id,
    name: app.name,
    status: row.status,
    url: urlOf(app),
    created_at: row.created_at.toISOString(),
  }
}

export function detailOf(
  row: DeploymentWithLatest,
  app: App,
  variables: Variables,
  urlOf: UrlOf,
): ResponseBody<'deployments.get'> {
  return {
    ...itemOf(row, app, urlOf),
    project_id: row.project_id,
    app_id: row.app_id,
    git_url: repositoryOf(row),
    source_id: row.source_id,
    image: imageOf(row),
    from_deployment_id: row.from_deployment_id,
    branch: row.branch,
    commit: row.commit,
    commit_message: row.commit_details?.message ?? null,
    commit_author: row.commit_details?.author ?? null,
    trigger: row.triggered_by,
    root: row.root,
    env_var_names: Object.keys(variables).sort(),
    latest_id: row.latest_id,
    kept: row.retained,
    failure: row.failure && { suggestions: [], ...row.failure },
    builds_before: row.builds_before ?? row.expected_builds_before,
    steps: [...stepsOf(row)],
    started_at: row.started_at?.toISOString() ?? null,
    finished_at: row.finished_at?.toISOString() ?? null,
  }
}

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

/** Returns the time of a commit in UTC; null when git does not know it, or RFC 3339 cannot express its year. */
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

/**
 * Shows an app with its releases and domains. A latest release always exists, because an app is deleted with its last
 * deployment.
 */
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
