import { sql } from 'kysely'
import { type PageRequest, readPage } from '../../http/page.ts'
import { createBatcher } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type DeploymentRow, type DeploymentWithLatest, tablesOf } from './tables.ts'

/** Reads of requests, each within one project. */
export interface ProjectReads {
  get(on: Database | Transaction, projectId: string, id: string): Promise<DeploymentWithLatest | undefined>
  /** Newest first. */
  list(projectId: string, page: PageRequest): Promise<{ rows: readonly DeploymentRow[]; next: string | null }>
  ofProject(projectId: string): Promise<DeploymentRow[]>
  /** The number of deployments that a project has. */
  count(projectId: string): Promise<number>
  /** The number of deployments of an account that wait or are being built. */
  countBuilding(on: Database | Transaction, accountId: string): Promise<number>
}

/** Reads of the server's own jobs, over all projects. */
export interface JobReads {
  find(id: string): Promise<DeploymentRow | undefined>
  /** The ids among these that there are rows of. */
  known(ids: readonly string[]): Promise<ReadonlySet<string>>
  building(): Promise<DeploymentRow[]>
  running(): Promise<DeploymentRow[]>
  /** The deployment of an app with the highest generation. */
  latest(on: Database | Transaction, appId: string): Promise<DeploymentRow | undefined>
  /** The deployments of an app that are building or running. */
  active(on: Database | Transaction, appId: string): Promise<DeploymentRow[]>
  /** The ids of the newest deployments of an app. */
  newest(appId: string, count: number): Promise<string[]>
}

export function createProjectReads({ database }: { database: Database }): ProjectReads {
  const db = tablesOf(database)

  return {
    get: (on, projectId, id) =>
      tablesOf(on)
        .selectFrom('deployments')
        .selectAll('deployments')
        .innerJoinLateral(
          ({ selectFrom }) =>
            selectFrom('deployments as other')
              .select('other.id as latest_id')
              .whereRef('other.app_id', '=', 'deployments.app_id')
              .orderBy('other.generation', 'desc')
              .limit(1)
              .as('latest'),
          (join) => join.onTrue(),
        )
        .select('latest.latest_id')
        .where('deployments.project_id', '=', projectId)
        .where('deployments.id', '=', id)
        .executeTakeFirst(),

    list: (projectId, page) =>
      readPage(db.selectFrom('deployments').selectAll().where('project_id', '=', projectId), page, 'id'),

    ofProject: (projectId) => db.selectFrom('deployments').selectAll().where('project_id', '=', projectId).execute(),

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

    async countBuilding(on, accountId) {
      const { count } = await tablesOf(on)
        .selectFrom('deployments')
        .select(({ fn }) => fn.countAll<string>().as('count'))
        .where('account_id', '=', accountId)
        .where('status', '=', 'building')
        .executeTakeFirstOrThrow()
      return Number(count)
    },
  }
}

export function createJobReads({ database }: { database: Database }): JobReads {
  const rows = (on: Database | Transaction = database) => tablesOf(on).selectFrom('deployments').selectAll()

  return {
    find: (id) => rows().where('id', '=', id).executeTakeFirst(),
    async known(ids) {
      const found = await tablesOf(database)
        .selectFrom('deployments')
        .select('id')
        .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
        .execute()
      return new Set(found.map(({ id }) => id))
    },
    building: () => rows().where('status', '=', 'building').execute(),
    running: () => rows().where('status', '=', 'running').execute(),

    latest: (on, appId) =>
      rows(on).where('app_id', '=', appId).orderBy('generation', 'desc').limit(1).executeTakeFirst(),

    active: (on, appId) =>
      rows(on).where('app_id', '=', appId).where('status', 'in', ['building', 'running']).execute(),

    async newest(appId, count) {
      const found = await tablesOf(database)
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

/** Counts the deployments in each state. */
export async function countByStatus(database: Database): Promise<Record<string, number>> {
  const rows = await tablesOf(database)
    .selectFrom('deployments')
    .select(({ fn }) => ['status', fn.countAll<string>().as('count')])
    .groupBy('status')
    .execute()
  return Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]))
}
