import { sql } from 'kysely'
import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Page, PageRequest } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database } from '../../platform/database.ts'
import type { AppDirectory } from '../app-directory.ts'
import type { DeploymentStore } from '../rows.ts'
import { tablesOf } from '../tables.ts'
import { releaseOf } from './presentation.ts'

interface ActivityDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'ofProjects'>
  readonly apps: Pick<AppDirectory, 'byIds'>
}

/** The deployments of all apps of a project together. */
export function activityHandlers(dependencies: ActivityDependencies): HandlersOf<'activity'> {
  return {
    'activity.list': ({ project, page }) => list(dependencies, project, page),
    'activity.outcomes': ({ project }) => outcomes(dependencies.database, project),
  }
}

async function list(
  { database, store, apps }: ActivityDependencies,
  project: TenantProject,
  page: PageRequest,
): Promise<Page<ResponseBody<'activity.list'>>> {
  const { rows, next } = await store.ofProjects.list(project.id, page)
  const known = await apps.byIds(
    database,
    rows.map((row) => row.app_id),
  )
  const releases = rows.flatMap((row) => {
    const app = known.get(row.app_id)
    // Deleted between the two reads.
    return app === undefined ? [] : [{ ...releaseOf(row), app: { id: app.id, name: app.name } }]
  })
  return { body: { releases }, next }
}

async function outcomes(database: Database, project: TenantProject): Promise<ResponseBody<'activity.outcomes'>> {
  const rows = await tablesOf(database)
    .selectFrom('deployments')
    .select(({ fn }) => [
      sql<Date>`date_bin('15 minutes', created_at, 'epoch')`.as('at'),
      fn.countAll<string>().filterWhere('status', 'in', ['running', 'superseded', 'stopped']).as('succeeded'),
      fn.countAll<string>().filterWhere('status', '=', 'failed').as('failed'),
      fn.countAll<string>().filterWhere('status', 'in', ['building', 'canceled']).as('other'),
    ])
    .where('project_id', '=', project.id)
    .where('created_at', '>', sql<Date>`now() - interval '15 days'`)
    .groupBy(sql`1`)
    .orderBy(sql`1`)
    .execute()
  return {
    outcomes: rows.map(({ at, succeeded, failed, other }) => ({
      at: at.toISOString(),
      succeeded: Number(succeeded),
      failed: Number(failed),
      other: Number(other),
    })),
  }
}
