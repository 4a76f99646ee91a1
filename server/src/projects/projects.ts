import { ApiError, invalidRequest, notFound } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../http/page.ts'
import type { Principal, TenantProject } from '../http/principal.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { enqueue } from '../platform/jobs.ts'
import { type Plans, plansForTier } from '../platform/plans.ts'
import { removeProjectTask } from './removal.ts'
import type { ProjectsTables } from './tables.ts'

export interface ProjectsDependencies {
  readonly database: Database
  /** Regions that may be named; empty for any. */
  readonly regions: readonly string[]
  readonly defaultRegion: string
  readonly plans: Plans
  /** The tier of an account, asked inside the transaction. */
  readonly tierOf: (transaction: Transaction, accountId: string) => Promise<string>
  /** How many resources a project has. */
  readonly countDeployments: (projectId: string) => Promise<number>
  /** Bytes that its files take. */
  readonly storedBytes: (projectId: string) => Promise<number>
  readonly countDatabases: (projectId: string) => Promise<number>
  /** What its apps were asked in the last day. */
  readonly trafficOf: (projectId: string) => Promise<ResponseBody<'projects.traffic'>>
}

type Resources = ResponseBody<'projects.get'>['resources']

export interface Projects {
  list(principal: Principal, page: PageRequest): Promise<Page<ResponseBody<'projects.list'>>>
  /** Throws `invalid_request` on a region or plan that the account may not use. */
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
  /** From now on nobody finds it; a job removes what is in it. Throws `invalid_request` while it has databases or files. */
  delete(transaction: Transaction, project: TenantProject): Promise<void>
  traffic(project: TenantProject): Promise<ResponseBody<'projects.traffic'>>
}

/** Open to every tier, so that nobody need be asked. */
const defaultPlan = 'free'

export function createProjects(dependencies: ProjectsDependencies): Projects {
  const db = dependencies.database.withTables<ProjectsTables>()

  const choosePlan = async (transaction: Transaction, principal: Principal, plan: string): Promise<string> => {
    const allowed = plansForTier(dependencies.plans, await dependencies.tierOf(transaction, principal.accountId))
    if (!allowed.includes(plan)) {
      throw invalidRequest({ field: 'plan', message: `must be one of: ${allowed.join(', ')}` })
    }
    return plan
  }

  const chooseRegion = (region: string): string => {
    if (dependencies.regions.length > 0 && !dependencies.regions.includes(region)) {
      throw invalidRequest({ field: 'region', message: `must be one of: ${dependencies.regions.join(', ')}` })
    }
    return region
  }

  const resourcesOf = async (projectId: string): Promise<Resources> => {
    const [deployments, databases, bytes] = await Promise.all([
      dependencies.countDeployments(projectId),
      dependencies.countDatabases(projectId),
      dependencies.storedBytes(projectId),
    ])
    return { deployments, databases, storage_gb: bytes / 1e9 }
  }

  const describe = async ({ id, name, region, plan, createdAt }: TenantProject) => {
    return { id, name, region, plan, resources: await resourcesOf(id), created_at: createdAt.toISOString() }
  }

  /** Counting them takes the longer the more there are, so all of an account's are counted as they come and go. */
  const countVisible = async ({ accountId, projectIds }: Principal): Promise<number> => {
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

  return {
    async list(principal, page) {
      const own = db.selectFrom('projects').where('account_id', '=', principal.accountId)
      const visible = principal.projectIds === null ? own : own.where('id', 'in', [...principal.projectIds])
      const [{ rows, next }, total] = await Promise.all([
        readPage(visible.select(['id', 'name', 'region', 'status', 'created_at']), page, 'id'),
        countVisible(principal),
      ])
      const projects = rows.map((row) => ({ ...row, created_at: row.created_at.toISOString() }))
      return { body: { projects, total }, next }
    },

    async create(transaction, principal, input) {
      const { created_at, ...row } = await transaction
        .withTables<ProjectsTables>()
        .insertInto('projects')
        .values({
          id: newId('project'),
          account_id: principal.accountId,
          name: input.name,
          region: chooseRegion(input.region ?? dependencies.defaultRegion),
          plan: input.plan === undefined ? defaultPlan : await choosePlan(transaction, principal, input.plan),
          status: 'active',
        })
        .returning(['id', 'name', 'region', 'plan', 'created_at'])
        .executeTakeFirstOrThrow()
      return { ...row, created_at: created_at.toISOString() }
    },

    get: (project) => describe(project),

    async update(transaction, principal, project, changes) {
      const plan = changes.plan === undefined ? project.plan : await choosePlan(transaction, principal, changes.plan)
      const name = changes.name ?? project.name
      await transaction
        .withTables<ProjectsTables>()
        .updateTable('projects')
        .set({ name, plan })
        .where('id', '=', project.id)
        .execute()
      return describe({ ...project, name, plan })
    },

    async delete(transaction, project) {
      const { numUpdatedRows } = await transaction
        .withTables<ProjectsTables>()
        .updateTable('projects')
        .set({ status: 'deleting' })
        .where('id', '=', project.id)
        .where('status', '=', 'active')
        .executeTakeFirst()
      if (numUpdatedRows === 0n) throw notFound()
      // Looked at now, when nobody can add to it any more.
      const resources = await resourcesOf(project.id)
      if (resources.databases > 0 || resources.storage_gb > 0) {
        throw new ApiError(
          'invalid_request',
          'The project has databases or files. Delete them first: what they hold does not come back.',
          { resources },
        )
      }
      await enqueue(transaction, { task: removeProjectTask, payload: { project_id: project.id } })
    },

    traffic: (project) => dependencies.trafficOf(project.id),
  }
}
