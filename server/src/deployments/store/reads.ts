import { sql } from 'kysely'
import { type PageRequest, readPage } from '../../http/page.ts'
import { createBatcher } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type DeploymentInFull, type DeploymentRow, type DeploymentWithApp, tablesOf } from './rows.ts'

export interface Reads {
  get(on: Database | Transaction, projectId: string, id: string): Promise<DeploymentInFull | undefined>
  /** For the server's own work, never for a request. */
  find(id: string): Promise<DeploymentRow | undefined>
  /** Newest first. */
  list(projectId: string, page: PageRequest): Promise<{ rows: readonly DeploymentWithApp[]; next: string | null }>
  ofProject(projectId: string): Promise<DeploymentRow[]>
  /** The deployment of an app that was wanted last: created, rolled back to or restarted. */
  latest(on: Database | Transaction, appId: string): Promise<DeploymentRow | undefined>
  /** The deployments of an app that are building or running. */
  active(on: Database | Transaction, appId: string): Promise<DeploymentRow[]>
  building(): Promise<DeploymentRow[]>
  running(): Promise<DeploymentRow[]>
  /** How many deployments of an account wait or are worked on. */
  countBuilding(on: Database | Transaction, accountId: string): Promise<number>
  /** How many deployments a project has. */
  count(projectId: string): Promise<number>
  /** The newest deployments of an app, whose logs are kept. */
  newest(appId: string, count: number): Promise<string[]>
}

export function createReads({ database }: { database: Database }): Reads {
  const db = tablesOf(database)
  const rows = db.selectFrom('deployments').selectAll()
  const withApps = (on: Database | Transaction) =>
    tablesOf(on)
      .selectFrom('deployments')
      .innerJoin('apps', 'apps.id', 'deployments.app_id')
      .selectAll('deployments')
      .select(['apps.name as app_name', 'apps.port', 'apps.hostname'])
  const counted = (on: Database | Transaction) =>
    tablesOf(on)
      .selectFrom('deployments')
      .select(({ fn }) => fn.countAll<string>().as('count'))

  return {
    get: (on, projectId, id) =>
      withApps(on)
        .innerJoinLateral(
          ({ selectFrom }) =>
            selectFrom('deployments as wanted')
              .select('wanted.id as latest_id')
              .whereRef('wanted.app_id', '=', 'deployments.app_id')
              .orderBy('wanted.intent', 'desc')
              .limit(1)
              .as('latest'),
          (join) => join.onTrue(),
        )
        .select('latest.latest_id')
        .where('deployments.project_id', '=', projectId)
        .where('deployments.id', '=', id)
        .executeTakeFirst(),

    find: (id) => rows.where('id', '=', id).executeTakeFirst(),

    list: (projectId, page) =>
      readPage(withApps(database).where('deployments.project_id', '=', projectId), page, 'deployments.id'),

    ofProject: (projectId) => rows.where('project_id', '=', projectId).execute(),

    latest: (on, appId) =>
      tablesOf(on)
        .selectFrom('deployments')
        .selectAll()
        .where('app_id', '=', appId)
        .orderBy('intent', 'desc')
        .limit(1)
        .executeTakeFirst(),

    active: (on, appId) =>
      tablesOf(on)
        .selectFrom('deployments')
        .selectAll()
        .where('app_id', '=', appId)
        .where('status', 'in', ['building', 'running'])
        .execute(),

    building: () => rows.where('status', '=', 'building').execute(),
    running: () => rows.where('status', '=', 'running').execute(),

    async countBuilding(on, accountId) {
      const { count } = await counted(on)
        .where('account_id', '=', accountId)
        .where('status', '=', 'building')
        .executeTakeFirstOrThrow()
      return Number(count)
    },

    count: createBatcher(async (projectIds: readonly string[]) => {
      const found = await db
        .selectFrom('deployments')
        .select(['project_id', ({ fn }) => fn.countAll<string>().as('count')])
        .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
        .groupBy('project_id')
        .execute()
      const counts = new Map(found.map((row) => [row.project_id, Number(row.count)]))
      return projectIds.map((id) => counts.get(id) ?? 0)
    }),

    async newest(appId, count) {
      const found = await db
        .selectFrom('deployments')
        .select('id')
        .where('app_id', '=', appId)
        .orderBy('id', 'desc')
        .limit(count)
        .execute()
      return found.map(({ id }) => id)
    },
  }
}
