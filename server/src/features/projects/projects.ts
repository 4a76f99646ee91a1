import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { Principal, TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { BatchedRead } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { enqueue } from '../../platform/jobs.ts'
import { type Plans, plansForTier } from '../../platform/plans.ts'
import type { ProjectsTables } from './tables.ts'

export interface ProjectRequestsDependencies extends ChoiceDependencies {
  readonly database: Database
  readonly counts: ResourceCounts
  readonly defaultRegion: string
  readonly totals: Pick<Totals, 'assertRoom'>
  readonly trafficOf: (projectId: string) => Promise<ResponseBody<'projects.traffic'>>
}

export interface ProjectRequests {
  list(principal: Principal, page: PageRequest): Promise<Page<ResponseBody<'projects.list'>>>
  /**
   * Throws `invalid_request` on a region or plan that the account may not use, and when it has reached its limit of
   * projects.
   */
  create(
    transaction: Transaction,
    principal: Principal,
    input: BodyOutput<'projects.create'>,
  ): Promise<ResponseBody<'projects.create'>>
  get(project: TenantProject): Promise<ResponseBody<'projects.get'>>
  /** Throws `invalid_request` on a plan that the account may not use. */
  update(
    transaction: Transaction,
    principal: Principal,
    project: TenantProject,
    changes: BodyOutput<'projects.update'>,
  ): Promise<ResponseBody<'projects.update'>>
  /**
   * Marks a project as deleting: it is no longer found, and a job removes its resources. Throws `invalid_request` while
   * it has databases or files.
   */
  delete(transaction: Transaction, project: TenantProject): Promise<void>
  usage(principal: Principal, page: PageRequest): Promise<Page<ResponseBody<'projects.usage'>>>
  traffic(project: TenantProject): Promise<ResponseBody<'projects.traffic'>>
}

/** The plan that every tier may use. */
const defaultPlan = 'free'

export function createProjectRequests(dependencies: ProjectRequestsDependencies): ProjectRequests {
  const { database } = dependencies

  return {
    list: (principal, page) => listProjects(database, principal, page),

    async create(transaction, principal, input) {
      const region = checkRegion(dependencies, input.region ?? dependencies.defaultRegion)
      const plan =
        input.plan === undefined
          ? defaultPlan
          : await checkPlan(dependencies, transaction, principal.accountId, input.plan)
      await dependencies.totals.assertRoom(transaction, principal.accountId, 'projects', () =>
        countProjects(transaction, principal.accountId),
      )
      const { created_at, ...row } = await transaction
        .withTables<ProjectsTables>()
        .insertInto('projects')
        .values({
          id: newId('project'),
          account_id: principal.accountId,
          name: input.name,
          region,
          plan,
          status: 'active',
        })
        .returning(['id', 'name', 'region', 'plan', 'created_at'])
        .executeTakeFirstOrThrow()
      return { ...row, created_at: created_at.toISOString() }
    },

    get: (project) => describe(dependencies, project),

    async update(transaction, principal, project, { name, ...changes }) {
      const plan =
        changes.plan === undefined
          ? undefined
          : await checkPlan(dependencies, transaction, principal.accountId, changes.plan)
      // Changes only the given fields, because another request may be changing the other field.
      const changed = await transaction
        .withTables<ProjectsTables>()
        .updateTable('projects')
        .set(({ ref }) => ({ name: name ?? ref('name'), plan: plan ?? ref('plan') }))
        .where('id', '=', project.id)
        .where('status', '=', 'active')
        .returning(['name', 'plan'])
        .executeTakeFirst()
      if (changed === undefined) throw notFound()
      return describe(dependencies, { ...project, ...changed }, transaction)
    },

    delete: (transaction, project) => deleteProject(dependencies.counts, transaction, project.id),

    usage: (principal, page) => usageOf(dependencies, principal, page),

    traffic: (project) => dependencies.trafficOf(project.id),
  }
}

async function describe(
  { counts }: ProjectRequestsDependencies,
  { id, name, region, plan, createdAt }: TenantProject,
  transaction?: Transaction,
): Promise<ResponseBody<'projects.get'>> {
  return {
    id,
    name,
    region,
    plan,
    resources: await resourcesOf(counts, id, transaction),
    created_at: createdAt.toISOString(),
  }
}

async function usageOf(
  dependencies: ProjectRequestsDependencies,
  principal: Principal,
  page: PageRequest,
): Promise<Page<ResponseBody<'projects.usage'>>> {
  const { rows, next } = await readPage(visibleTo(dependencies.database, principal).select('id'), page, 'id')
  // The counts of all projects share one query for each kind of resource.
  const usage = await Promise.all(
    rows.map(async ({ id }) => ({ id, resources: await resourcesOf(dependencies.counts, id) })),
  )
  return { body: { usage }, next }
}

function visibleTo(database: Database, { accountId, projectIds }: Principal) {
  const own = database.withTables<ProjectsTables>().selectFrom('projects').where('account_id', '=', accountId)
  return projectIds === null ? own : own.where('id', 'in', [...projectIds])
}

async function listProjects(
  database: Database,
  principal: Principal,
  page: PageRequest,
): Promise<Page<ResponseBody<'projects.list'>>> {
  const [{ rows, next }, total] = await Promise.all([
    readPage(visibleTo(database, principal).select(['id', 'name', 'region', 'status', 'created_at']), page, 'id'),
    countVisible(database, principal),
  ])
  const projects = rows.map((row) => ({ ...row, created_at: row.created_at.toISOString() }))
  return { body: { projects, total }, next }
}

/**
 * Counts the projects that a principal may see. Triggers maintain an account's total, because counting rows is slow.
 */
async function countVisible(database: Database, { accountId, projectIds }: Principal): Promise<number> {
  const db = database.withTables<ProjectsTables>()
  const { total } =
    projectIds === null
      ? await db
          .selectFrom('project_counts')
          .select(({ fn }) => fn.sum<string | null>('total').as('total'))
          .where('account_id', '=', accountId)
          .executeTakeFirstOrThrow()
      : await db
          .selectFrom('projects')
          .select(({ fn }) => fn.countAll<string>().as('total'))
          .where('account_id', '=', accountId)
          .where('id', 'in', [...projectIds])
          .executeTakeFirstOrThrow()
  return Number(total ?? 0)
}

async function deleteProject(counts: ResourceCounts, transaction: Transaction, projectId: string): Promise<void> {
  const { numUpdatedRows } = await transaction
    .withTables<ProjectsTables>()
    .updateTable('projects')
    .set({ status: 'deleting' })
    .where('id', '=', projectId)
    .where('status', '=', 'active')
    .executeTakeFirst()
  if (numUpdatedRows === 0n) throw notFound()
  // Counted after the status has changed: from now on nobody can add resources.
  const resources = await resourcesOf(counts, projectId, transaction)
  if (resources.databases > 0 || resources.storage_gb > 0) {
    throw new ApiError(
      'invalid_request',
      'The project has databases or files. Delete them first: their content cannot be restored.',
      { resources },
    )
  }
  await enqueue(transaction, { task: removeProjectTask, payload: { project_id: projectId } })
}

/** Includes projects that are being deleted, because they still have resources. */
async function countProjects(transaction: Transaction, accountId: string): Promise<number> {
  const { count } = await transaction
    .withTables<ProjectsTables>()
    .selectFrom('projects')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

interface ChoiceDependencies {
  /** The configured regions; empty when any region is allowed. */
  readonly regions: readonly string[]
  readonly plans: Plans
  readonly tierOf: (transaction: Transaction, accountId: string) => Promise<string>
}

/** Returns the plan. Throws `invalid_request` unless the tier of the account may use it. */
async function checkPlan(
  { plans, tierOf }: Pick<ChoiceDependencies, 'plans' | 'tierOf'>,
  transaction: Transaction,
  accountId: string,
  plan: string,
): Promise<string> {
  const allowed = plansForTier(plans, await tierOf(transaction, accountId))
  if (!allowed.includes(plan)) {
    throw invalidRequest({ field: 'plan', message: `must be one of: ${allowed.join(', ')}` })
  }
  return plan
}

/** Returns the region. Throws `invalid_request` unless it is configured. */
function checkRegion({ regions }: Pick<ChoiceDependencies, 'regions'>, region: string): string {
  if (regions.length > 0 && !regions.includes(region)) {
    throw invalidRequest({ field: 'region', message: `must be one of: ${regions.join(', ')}` })
  }
  return region
}

export interface ResourceCounts {
  readonly countDeployments: BatchedRead<string, number>
  readonly countDatabases: BatchedRead<string, number>
  readonly storedBytes: BatchedRead<string, number>
}

async function resourcesOf(
  { countDeployments, countDatabases, storedBytes }: ResourceCounts,
  projectId: string,
  transaction?: Transaction,
): Promise<ResponseBody<'projects.get'>['resources']> {
  const [deployments, databases, bytes] = await Promise.all([
    countDeployments(projectId, transaction),
    countDatabases(projectId, transaction),
    storedBytes(projectId, transaction),
  ])
  return { deployments, databases, storage_gb: bytes / 1e9 }
}

export const removeProjectTask = 'projects.remove'

export interface RemovalDependencies {
  readonly database: Database
  /** Each removes the resources of a feature, in this order, and may be repeated after an interruption. */
  readonly removers: readonly ((projectId: string, signal: AbortSignal) => Promise<void>)[]
}

/**
 * Removes all resources of a project, feature by feature, and then the project. May be repeated after an interruption.
 */
export async function removeProject(
  { database, removers }: RemovalDependencies,
  projectId: string,
  signal: AbortSignal,
): Promise<void> {
  for (const remove of removers) await remove(projectId, signal)
  // Fails when a new resource refers to the project. The job's next attempt removes that resource.
  await database
    .withTables<ProjectsTables>()
    .deleteFrom('projects')
    .where('id', '=', projectId)
    .where('status', '=', 'deleting')
    .execute()
}
