import { sql } from 'kysely'
import type { DeploymentStatus } from '../../contract/deployments.ts'
import { type PageRequest, readPage } from '../../http/page.ts'
import { type BatchedRead, createBatchedRead } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type DeploymentRow, type DeploymentWithLatest, tablesOf } from './tables.ts'

/** Reads for requests, each within one project. */
export interface ProjectReads {
  get(on: Database | Transaction, projectId: string, id: string): Promise<DeploymentWithLatest | undefined>
  list(projectId: string, page: PageRequest): Promise<{ rows: readonly DeploymentRow[]; next: string | null }>
  ofProject(projectId: string): Promise<DeploymentRow[]>
  readonly count: BatchedRead<string, number>
  /**
   * Counts an account's deployments that wait for a build or are being built. A retained release that starts again does
   * not count.
   */
  countBuilding(on: Database | Transaction, accountId: string): Promise<number>
  /** The ids of the project's apps that count towards its plan: a deployment of them is building, or has run. */
  countedApps(on: Database | Transaction, projectId: string): Promise<ReadonlySet<string>>
  /** Counts an account's apps that have deployments. Only an app that is being created has none. */
  countApps(on: Database | Transaction, accountId: string): Promise<number>
}

interface ReleaseFilter {
  readonly status?: DeploymentStatus | undefined
  readonly branch?: string | undefined
  /** The beginning of an id or a commit, or a part of a branch, a commit's message or its author. */
  readonly search?: string | undefined
}

export interface ReleaseReads {
  /** The releases of these apps that run or have the highest generation. */
  serving(on: Database | Transaction, appIds: readonly string[]): Promise<DeploymentRow[]>
  latest(on: Database | Transaction, appIds: readonly string[]): Promise<DeploymentRow[]>
  /** The app's retained release with the highest generation that neither builds nor runs. */
  latestEnded(on: Database | Transaction, appId: string): Promise<DeploymentRow | undefined>
  /** The running release of the project's app and its most recently requested releases, ordered by request. */
  recent(projectId: string, appId: string, count: number): Promise<DeploymentRow[]>
  page(
    appId: string,
    filter: ReleaseFilter,
    page: PageRequest,
  ): Promise<{ rows: readonly DeploymentRow[]; next: string | null }>
  /** The newest releases of an app that began to serve since then, oldest first. */
  servedSince(appId: string, since: Date): Promise<ServedRelease[]>
}

interface ServedRelease {
  readonly id: string
  readonly at: string
  readonly status: DeploymentStatus
  readonly commit: string | null
}

const mostServed = 100

/** Reads for the server's jobs, over all projects. */
export interface JobReads {
  find(id: string, on?: Transaction): Promise<DeploymentRow | undefined>
  existing(ids: readonly string[]): Promise<ReadonlySet<string>>
  building(): Promise<DeploymentRow[]>
  running(): Promise<DeploymentRow[]>
  withHealth(): Promise<DeploymentRow[]>
  /** True while a deployment of the app is being started, checked or switched to. */
  isSwitching(appId: string): Promise<boolean>
  latest(on: Database | Transaction, appId: string): Promise<DeploymentRow | undefined>
  /** The deployment of an app with the highest generation that has served. */
  latestBuilt(appId: string): Promise<DeploymentRow | undefined>
  active(on: Database | Transaction, appId: string): Promise<DeploymentRow[]>
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
        .select(['latest.latest_id', expectedBuildsBefore])
        .where('deployments.project_id', '=', projectId)
        .where('deployments.id', '=', id)
        .executeTakeFirst(),

    list: (projectId, page) =>
      readPage(db.selectFrom('deployments').selectAll().where('project_id', '=', projectId), page, 'id'),

    ofProject: (projectId) => db.selectFrom('deployments').selectAll().where('project_id', '=', projectId).execute(),

    count: createBatchedRead(database, async (on, projectIds) => {
      const found = await tablesOf(on)
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
        .where('retained', '=', false)
        .executeTakeFirstOrThrow()
      return Number(count)
    },

    countedApps,

    countApps,
  }
}

/**
 * A queued deployment waits for the builds of its app that have begun, because an app's builds run in sequence, and for
 * everything that these builds wait for. Without such builds it comes after all deployments that wait for a build slot;
 * if none waits, it begins at once.
 */
const expectedBuildsBefore = sql<number | null>`case when deployments.status = 'building'
  and deployments.started_at is null and not deployments.retained then coalesce(
    (select sum(coalesce(other.builds_before, 0) + 1)::integer from deployments other
      where other.app_id = deployments.app_id and other.status = 'building' and other.started_at is not null
        and not other.retained),
    (select max(other.builds_before) + 1 + (
        select count(*)::integer from deployments earlier
        where earlier.status = 'building' and earlier.started_at is null and not earlier.retained
          and earlier.id < deployments.id)
      from deployments other where other.status = 'building')
  ) end`.as('expected_builds_before')

async function countApps(on: Database | Transaction, accountId: string): Promise<number> {
  const { count } = await tablesOf(on)
    .selectFrom('deployments')
    .select(({ fn }) => fn.count<string>('app_id').distinct().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

async function countedApps(on: Database | Transaction, projectId: string): Promise<ReadonlySet<string>> {
  const found = await tablesOf(on)
    .selectFrom('deployments')
    .select('app_id')
    .distinct()
    .where('project_id', '=', projectId)
    .where(({ eb, or }) => or([eb('status', 'in', ['building', 'running', 'stopped']), eb('retained', '=', true)]))
    .execute()
  return new Set(found.map(({ app_id }) => app_id))
}

const findLatestEnded: ReleaseReads['latestEnded'] = (on, appId) =>
  tablesOf(on)
    .selectFrom('deployments')
    .selectAll()
    .where('app_id', '=', appId)
    .where('retained', '=', true)
    .where('status', 'not in', ['building', 'running'])
    .orderBy('generation', 'desc')
    .limit(1)
    .executeTakeFirst()

export function createReleaseReads({ database }: { database: Database }): ReleaseReads {
  const ofApps = (on: Database | Transaction, appIds: readonly string[]) =>
    tablesOf(on)
      .selectFrom('deployments')
      .selectAll()
      .where('app_id', '=', sql<string>`any(${[...appIds]}::text[])`)

  return {
    serving: (on, appIds) => ofApps(on, appIds).where('status', '=', 'running').execute(),

    latest: (on, appIds) =>
      ofApps(on, appIds).distinctOn('app_id').orderBy('app_id').orderBy('generation', 'desc').execute(),

    latestEnded: findLatestEnded,

    recent: async (projectId, appId, count) => {
      const own = ofApps(database, [appId]).where('project_id', '=', projectId)
      const newest = (await own.orderBy('generation', 'desc').limit(count).execute()).toReversed()
      const isNew = new Set(newest.map(({ id }) => id))
      const running = await own.where('status', '=', 'running').execute()
      return [...running.filter(({ id }) => !isNew.has(id)), ...newest]
    },

    page(appId, { status, branch, search }, page) {
      let wanted = ofApps(database, [appId])
      if (status !== undefined) wanted = wanted.where('status', '=', status)
      if (branch !== undefined) wanted = wanted.where('branch', '=', branch)
      if (search !== undefined) {
        wanted = wanted.where(({ eb, fn, or, val }) =>
          or([
            eb(fn<boolean>('starts_with', ['id', val(search)]), '=', true),
            eb(fn<boolean>('starts_with', ['commit', val(search.toLowerCase())]), '=', true),
            ...[sql.ref('branch'), sql`commit_details->>'message'`, sql`commit_details->>'author'`].map((text) =>
              eb(fn<number>('strpos', [fn('lower', [text]), val(search.toLowerCase())]), '>', 0),
            ),
          ]),
        )
      }
      return readPage(wanted, page, 'id')
    },

    async servedSince(appId, since) {
      const rows = await ofApps(database, [appId])
        .where('finished_at', '>=', since)
        .where('status', '<>', 'building')
        // The plan is recorded when a release begins to serve.
        .where('build_plan', 'is not', null)
        .where(sql<boolean>`(status <> 'failed' or failure ->> 'stage' = 'run')`)
        .orderBy('finished_at', 'desc')
        .limit(mostServed)
        .execute()
      return rows.reverse().map(({ id, status, commit, finished_at }) => ({
        id,
        at: (finished_at ?? since).toISOString(),
        status,
        commit,
      }))
    },
  }
}

export function createJobReads({ database }: { database: Database }): JobReads {
  const rows = (on: Database | Transaction = database) => tablesOf(on).selectFrom('deployments').selectAll()

  return {
    find: (id, on) => rows(on).where('id', '=', id).executeTakeFirst(),
    async existing(ids) {
      const found = await tablesOf(database)
        .selectFrom('deployments')
        .select('id')
        .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
        .execute()
      return new Set(found.map(({ id }) => id))
    },
    building: () => rows().where('status', '=', 'building').execute(),
    running: () => rows().where('status', '=', 'running').execute(),
    withHealth: () => rows().where('status', '=', 'running').where(sql<boolean>`build_plan ? 'health'`).execute(),

    async isSwitching(appId) {
      const { count } = await tablesOf(database)
        .selectFrom('deployments')
        .select(({ fn }) => fn.countAll<string>().as('count'))
        .where('app_id', '=', appId)
        .where('status', '=', 'building')
        .where(sql<boolean>`steps -> 'steps' -> -1 ->> 'name' in ('start', 'check', 'switch')`)
        .executeTakeFirstOrThrow()
      return Number(count) > 0
    },

    latest: (on, appId) =>
      rows(on).where('app_id', '=', appId).orderBy('generation', 'desc').limit(1).executeTakeFirst(),

    latestBuilt: (appId) =>
      rows()
        .where('app_id', '=', appId)
        .where('build_plan', 'is not', null)
        .orderBy('generation', 'desc')
        .limit(1)
        .executeTakeFirst(),

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

export async function countByStatus(database: Database): Promise<Record<string, number>> {
  const rows = await tablesOf(database)
    .selectFrom('deployments')
    .select(({ fn }) => ['status', fn.countAll<string>().as('count')])
    .groupBy('status')
    .execute()
  return Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]))
}

/**
 * Returns the release to compare an app's changes with: the release that is being built, else the serving release, else
 * the latest. After a rollback it is the release that was rolled back to. It is missing only when the app is being
 * deleted.
 */
export async function currentRelease(
  releases: Pick<ReleaseReads, 'serving' | 'latest'>,
  on: Database | Transaction,
  appId: string,
): Promise<DeploymentRow | undefined> {
  const [latest] = await releases.latest(on, [appId])
  if (latest?.status === 'building') return latest
  const [serving] = await releases.serving(on, [appId])
  return serving ?? latest
}
