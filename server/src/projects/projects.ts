import { invalidRequest } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import { cutPage, type Page, type PageRequest } from '../http/page.ts'
import type { Principal, TenantProject } from '../http/principal.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { type Plans, plansForTier } from '../platform/plans.ts'
import type { ProjectsTables } from './tables.ts'

export interface ProjectsDependencies {
  readonly database: Database
  /** Regions that may be named; empty for any. */
  readonly regions: readonly string[]
  readonly defaultRegion: string
  readonly plans: Plans
  /** The tier of an account. */
  readonly tierOf: (accountId: string) => Promise<string>
  /** How many resources a project has. */
  readonly countDeployments: (projectId: string) => Promise<number>
  readonly countDatabases: (projectId: string) => Promise<number>
}

export interface Projects {
  list(principal: Principal, page: PageRequest): Promise<Page<ResponseBody<'projects.list'>>>
  /** Throws `invalid_request` on a region or plan that the account may not use. */
  create(
    transaction: Transaction,
    principal: Principal,
    input: BodyOutput<'projects.create'>,
  ): Promise<ResponseBody<'projects.create'>>
  get(project: TenantProject): Promise<ResponseBody<'projects.get'>>
}

const defaultPlan = 'free'

export function createProjects(dependencies: ProjectsDependencies): Projects {
  const db = dependencies.database.withTables<ProjectsTables>()

  const choosePlan = async (principal: Principal, plan: string): Promise<string> => {
    const allowed = plansForTier(dependencies.plans, await dependencies.tierOf(principal.accountId))
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

  return {
    async list(principal, page) {
      const own = db.selectFrom('projects').where('account_id', '=', principal.accountId).where('status', '=', 'active')
      const visible = principal.projectIds === null ? own : own.where('id', 'in', [...principal.projectIds])
      const [found, { total }] = await Promise.all([
        (page.after === undefined ? visible : visible.where('id', '<', page.after))
          .select(['id', 'name', 'region', 'status', 'created_at'])
          .orderBy('id', 'desc')
          .limit(page.limit + 1)
          .execute(),
        visible.select(({ fn }) => fn.countAll<string>().as('total')).executeTakeFirstOrThrow(),
      ])
      const { rows, next } = cutPage(found, page)
      const projects = rows.map((row) => ({ ...row, created_at: row.created_at.toISOString() }))
      return { body: { projects, total: Number(total) }, next }
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
          plan: await choosePlan(principal, input.plan ?? defaultPlan),
          status: 'active',
        })
        .returning(['id', 'name', 'region', 'plan', 'created_at'])
        .executeTakeFirstOrThrow()
      return { ...row, created_at: created_at.toISOString() }
    },

    async get({ id, name, region, plan, createdAt }) {
      return {
        id,
        name,
        region,
        plan,
        resources: {
          deployments: await dependencies.countDeployments(id),
          databases: await dependencies.countDatabases(id),
          // Files are not part of this server yet, so a project has none.
          storage_gb: 0,
        },
        created_at: createdAt.toISOString(),
      }
    },
  }
}
