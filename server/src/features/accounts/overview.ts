import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Database } from '../../platform/database.ts'
import { type AccountLimits, type Plan, type Plans, plansForTier, type Tier } from '../../platform/plans.ts'
import { createKeys } from './keys.ts'

type CountOfAccount = (on: Database, accountId: string) => Promise<number>
type CountOfProject = (projectId: string) => Promise<number>

export interface OverviewParts {
  readonly database: Database
  readonly plans: Plans
  readonly regions: readonly string[]
  readonly defaultRegion: string
  readonly tierOf: (on: Database, accountId: string) => Promise<Tier>
  readonly totals: Pick<Totals, 'of'>
  /** Returns the ids of all projects of an account, including projects that are being deleted. */
  readonly projectsOf: (on: Database, accountId: string) => Promise<readonly string[]>
  readonly projectNamesOf: (accountId: string) => Promise<readonly Named[]>
  readonly appsOfProjects: (projectIds: readonly string[]) => Promise<readonly InProject[]>
  readonly databasesOfProjects: (projectIds: readonly string[]) => Promise<readonly InProject[]>
  readonly countApps: CountOfAccount
  readonly countDatabases: CountOfProject
  /** The total size of a project's files in bytes. */
  readonly storedBytes: CountOfProject
  readonly countBuilding: CountOfAccount
  /** Counts the commands that run or wait for their connection. */
  readonly countRuns: CountOfAccount
  readonly countSchedules: CountOfAccount
  readonly countDomains: CountOfAccount
}

export interface Overview {
  readonly handlers: Pick<HandlersOf<'account'>, 'account.usage' | 'account.plans' | 'account.search'>
}

export function createOverview(parts: OverviewParts): Overview {
  const { database, plans, regions, defaultRegion, tierOf, totals } = parts
  return {
    handlers: {
      async 'account.usage'({ principal: { accountId } }) {
        const [limits, used] = await Promise.all([totals.of(database, accountId), countUsage(parts, accountId)])
        return { usage: used.map(([limit, count]) => ({ limit, used: count, most: limits[limit] })) }
      },

      async 'account.plans'({ principal: { accountId } }) {
        const allowed = plansForTier(plans, await tierOf(database, accountId))
        return {
          plans: allowed.flatMap((name) => planView(name, plans[name])),
          regions: [...regions],
          default_region: defaultRegion,
        }
      },

      async 'account.search'({ principal: { accountId }, query }) {
        const projects = await parts.projectNamesOf(accountId)
        const ids = projects.map(({ id }) => id)
        const [apps, databases] = await Promise.all([parts.appsOfProjects(ids), parts.databasesOfProjects(ids)])
        return findByWords(query.text, { projects, apps, databases })
      },
    },
  }
}

type Counted = ResponseBody<'account.usage'>['usage'][number]['limit'] & keyof AccountLimits

async function countUsage(parts: OverviewParts, accountId: string): Promise<readonly (readonly [Counted, number])[]> {
  const { database } = parts
  const projectIds = await parts.projectsOf(database, accountId)
  const sum = async (of: CountOfProject) =>
    (await Promise.all(projectIds.map((id) => of(id)))).reduce((total, each) => total + each, 0)
  const [apps, databases, bytes, building, runs, schedules, domains, keys] = await Promise.all([
    parts.countApps(database, accountId),
    sum(parts.countDatabases),
    sum(parts.storedBytes),
    parts.countBuilding(database, accountId),
    parts.countRuns(database, accountId),
    parts.countSchedules(database, accountId),
    parts.countDomains(database, accountId),
    createKeys({ database }).countValid(database, accountId),
  ])
  return [
    ['projects', projectIds.length],
    ['apps', apps],
    ['databases', databases],
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

interface Named {
  readonly id: string
  readonly name: string
}

interface InProject extends Named {
  readonly project_id: string
}

type Answer = ResponseBody<'account.search'>
type Found = Answer['found'][number]

const most = 50

/**
 * Finds items that have each word of a text in their name or in the name of their project. Keeps the order of each
 * kind, except that items with all words in their own name come first.
 */
function findByWords(
  text: string,
  all: {
    readonly projects: readonly Named[]
    readonly apps: readonly InProject[]
    readonly databases: readonly InProject[]
  },
): Answer {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  const projectNames = new Map(all.projects.map(({ id, name }) => [id, name]))
  const listed = (kind: Found['kind'], items: readonly InProject[]) =>
    items
      .map(({ id, name, project_id }): Found => {
        return { kind, id, name, project_id, project_name: projectNames.get(project_id) ?? '' }
      })
      .filter((each) => matches(words, each))
      .sort((one, other) => Number(isNamed(words, other.name)) - Number(isNamed(words, one.name)))
  const kinds = [
    listed(
      'project',
      all.projects.map((each) => ({ ...each, project_id: each.id })),
    ),
    listed('app', all.apps),
    listed('database', all.databases),
    listed(
      'storage',
      all.projects.map(({ id }) => ({ id, name: 'Storage', project_id: id })),
    ),
  ]
  return {
    found: kinds.flatMap((items) => items.slice(0, most)),
    complete: kinds.every((items) => items.length <= most),
  }
}

const matches = (words: readonly string[], { name, project_name }: Found): boolean =>
  isNamed(words, `${name}\n${project_name}`)

function isNamed(words: readonly string[], name: string): boolean {
  const lower = name.toLowerCase()
  return words.every((word) => lower.includes(word))
}
