import type { Database } from '../../platform/database.ts'
import type { Announce, UrlOf } from '../state/announce.ts'
import type { AppDirectory } from '../state/apps.ts'
import type { DeploymentFailure } from '../state/failure.ts'
import type { JobTransitions } from '../state/job-transitions.ts'
import type { ProjectReads } from '../state/reads.ts'
import { bringBackSuperseded } from '../state/superseded.ts'
import type { DeploymentRow } from '../state/tables.ts'

/**
 * Makes a deployment `failed` and announces it in one transaction. Does nothing when a later request was accepted.
 *
 * @param only the first instance that the release has to have; any when it is not given
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
  readonly announce: Announce
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
