import type { Announce } from '../../platform/announce.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { App, AppDirectory } from './app-directory.ts'
import type { DeploymentFailure } from './failure.ts'
import type { ProjectReads } from './reads.ts'
import { bringBackSuperseded, type JobTransitions } from './rows.ts'
import type { DeploymentRow } from './tables.ts'

type Announcement = {
  readonly row: Pick<DeploymentRow, 'id' | 'project_id' | 'account_id'>
  readonly url: string
} & (
  | { readonly event: 'deployment.succeeded' | 'deployment.canceled' }
  | { readonly event: 'deployment.failed'; readonly failure: DeploymentFailure }
)

export type AnnounceOutcome = (transaction: Transaction, announcement: Announcement) => Promise<void>

export function createAnnounceOutcome(announce: Announce): AnnounceOutcome {
  return (transaction, { event, row, url, ...more }) =>
    announce(transaction, {
      accountId: row.account_id,
      projectId: row.project_id,
      event,
      data: { deployment_id: row.id, project_id: row.project_id, url, ...more },
    })
}

export type UrlOf = (app: Pick<App, 'address'>) => string

/**
 * Makes a deployment `failed` and announces it in one transaction. Does nothing when a later request was accepted.
 *
 * @param only the first instance that the release must have; without it, any instance
 */
export type Fail = (
  row: DeploymentRow,
  failure: DeploymentFailure,
  only?: Pick<DeploymentRow, 'instance'>,
) => Promise<void>

export function createFail(dependencies: {
  readonly database: Database
  readonly jobs: Pick<JobTransitions, 'fail'>
  readonly ofProjects: Pick<ProjectReads, 'countBuilding'>
  readonly apps: Pick<AppDirectory, 'get'>
  readonly announce: AnnounceOutcome
  readonly urlOf: UrlOf
}): Fail {
  const { database, jobs, ofProjects, apps, announce, urlOf } = dependencies
  return async (row, failure, only) => {
    const app = await apps.get(row.app_id)
    await database.transaction().execute(async (transaction) => {
      if (!(await jobs.fail(transaction, row, failure, only))) return
      const { stage, code, message } = failure
      await announce(transaction, {
        event: 'deployment.failed',
        row,
        url: urlOf(app),
        failure: { stage, code, message },
      })
      await bringBackSuperseded(transaction, ofProjects, row)
    })
  }
}
