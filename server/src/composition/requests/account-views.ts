import { createKeys } from '../../accounts/keys.ts'
import type { AppStore } from '../../apps/apps.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { Databases } from '../../databases/operations/databases.ts'
import type { ProjectReads } from '../../deployments/state/reads.ts'
import type { Domains } from '../../domains/index.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Database } from '../../platform/database.ts'
import { type AccountLimits, type Plan, plansForTier, type Tier } from '../../platform/plans.ts'
import { findByWords } from '../../projects/find-by-words.ts'
import type { Tenancy } from '../../projects/tenancy.ts'
import type { Runs } from '../../runs/index.ts'
import type { Files } from '../../storage/files.ts'
import type { Composition } from '../composition.ts'

interface Features {
  readonly accounts: {
    readonly totals: Pick<Totals, 'of'>
    readonly tierOf: (on: Database, accountId: string) => Promise<Tier>
  }
  readonly tenancy: Pick<Tenancy, 'projectsOf' | 'namesOf'>
  readonly deployments: {
    readonly ofAccount: Pick<ProjectReads, 'countApps' | 'countBuilding'>
    readonly appsOfProjects: AppStore['ofProjects']
  }
  readonly runs: Pick<Runs, 'countUnfinished' | 'countSchedules'>
  readonly domains: Pick<Domains, 'count'>
  readonly databases: Pick<Databases, 'count' | 'ofProjects'>
  readonly storage: Pick<Files, 'storedBytes'>
}

/** Creates the operations that read all features of an account. */
export function composeAccountViews(
  { config, state }: Pick<Composition, 'config' | 'state'>,
  features: Features,
): Pick<HandlersOf<'account'>, 'account.usage' | 'account.plans' | 'account.search'> {
  const database = state.db
  const { accounts, tenancy } = features
  return {
    async 'account.usage'({ principal: { accountId } }) {
      const [limits, used] = await Promise.all([
        accounts.totals.of(database, accountId),
        countUsage(database, features, accountId),
      ])
      return { usage: used.map(([limit, count]) => ({ limit, used: count, most: limits[limit] })) }
    },

    async 'account.plans'({ principal: { accountId } }) {
      const { plans, regions, defaultRegion } = config
      const allowed = plansForTier(plans, await accounts.tierOf(database, accountId))
      return {
        plans: allowed.flatMap((name) => planView(name, plans[name])),
        regions: [...regions],
        default_region: defaultRegion,
      }
    },

    async 'account.search'({ principal: { accountId }, query }) {
      const projects = await tenancy.namesOf(accountId)
      const ids = projects.map(({ id }) => id)
      const [apps, databases] = await Promise.all([
        features.deployments.appsOfProjects(ids),
        features.databases.ofProjects(ids),
      ])
      return findByWords(query.text, { projects, apps, databases })
    },
  }
}

type Counted = ResponseBody<'account.usage'>['usage'][number]['limit'] & keyof AccountLimits

/** Counts the resources of an account in the units of its limits. */
async function countUsage(
  database: Database,
  features: Features,
  accountId: string,
): Promise<readonly (readonly [Counted, number])[]> {
  const { tenancy, deployments, databases, storage } = features
  const projectIds = await tenancy.projectsOf(database, accountId)
  const sum = async (of: (projectId: string) => Promise<number>) =>
    (await Promise.all(projectIds.map((id) => of(id)))).reduce((total, each) => total + each, 0)
  const [apps, inDatabases, bytes, building, runs, schedules, domains, keys] = await Promise.all([
    deployments.ofAccount.countApps(database, accountId),
    sum(databases.count),
    sum(storage.storedBytes),
    deployments.ofAccount.countBuilding(database, accountId),
    features.runs.countUnfinished(database, accountId),
    features.runs.countSchedules(database, accountId),
    features.domains.count(database, { account_id: accountId }),
    createKeys({ database }).countValid(database, accountId),
  ])
  return [
    ['projects', projectIds.length],
    ['apps', apps],
    ['databases', inDatabases],
    ['storage_gb', bytes / 1e9],
    ['building', building],
    ['runs', runs],
    ['schedules', schedules],
    ['domains', domains],
    ['api_keys', keys],
  ]
}

function planView(name: string, plan: Plan | undefined): ResponseBody<'account.plans'>['plans'] {
  if (plan === undefined) return []
  const { memory_mb, cpus, instances, app_gb, domains, apps, databases, database_gb, storage_gb, file_mb } = plan
  return [{ name, memory_mb, cpus, instances, app_gb, domains, apps, databases, database_gb, storage_gb, file_mb }]
}
