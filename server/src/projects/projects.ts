import { invalidRequest, notFound } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import { mayUseProject, type Principal, type TenantProject } from '../http/principal.ts'
import type { Database } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { defaultPlan, plansForTier } from './plans.ts'
import type { ProjectsTables } from './tables.ts'

export interface ProjectsDependencies {
  readonly database: Database
  /** Regions that may be named; empty for any. */
  readonly regions: readonly string[]
  readonly defaultRegion: string
  /** The tier of an account. */
  readonly tierOf: (accountId: string) => Promise<string>
  /** How many resources a project has. */
  readonly countDeployments: (projectId: string) => Promise<number>
}

export interface Projects {
  list(principal: Principal): Promise<ResponseBody<'projects.list'>>
  /** Throws `invalid_request` on a region or plan that the account may not use. */
  create(principal: Principal, input: BodyOutput<'projects.create'>): Promise<ResponseBody<'projects.create'>>
  get(project: TenantProject): Promise<ResponseBody<'projects.get'>>
}

export function createProjects(dependencies: ProjectsDependencies): Projects {
  const db = dependencies.database.withTables<ProjectsTables>()

  const choosePlan = async (principal: Principal, plan: string): Promise<string> => {
    const allowed = plansForTier(await dependencies.tierOf(principal.accountId))
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
    async list(principal) {
      const rows = await db
        .selectFrom('projects')
        .selectAll()
        .where('account_id', '=', principal.accountId)
        .orderBy('id', 'desc')
        .execute()
      const projects = rows
        .filter((row) => mayUseProject(principal, row.id))
        .map(({ id, name, region, status, created_at }) => {
          return { id, name, region, status, created_at: created_at.toISOString() }
        })
      return { projects, total: projects.length }
    },

    async create(principal, input) {
      const { created_at, ...row } = await db
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

    async get(project) {
      const row = await db.selectFrom('projects').selectAll().where('id', '=', project.id).executeTakeFirst()
      if (row === undefined) throw notFound()
      return {
        id: row.id,
        name: row.name,
        region: row.region,
        plan: row.plan,
        // Databases and files are not part of this server yet, so a project has none.
        resources: { deployments: await dependencies.countDeployments(row.id), databases: 0, storage_gb: 0 },
        created_at: row.created_at.toISOString(),
      }
    },
  }
}
