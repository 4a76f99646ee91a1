import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { BatchedRead } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Task } from '../../platform/jobs.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Plans, Tier } from '../../platform/plans.ts'
import { type OnDelete, projectHandlers } from './handlers.ts'
import { createProjectRequests, type RemovalDependencies, removeProject, removeProjectTask } from './projects.ts'

/** Features look up projects, and `createProjects` counts what features have: it comes after them. */
export { createTenancy, type Tenancy } from './tenancy.ts'

export interface ProjectsParts {
  readonly database: Database
  /** The regions that projects may name; empty when any region is allowed. */
  readonly regions: readonly string[]
  readonly defaultRegion: string
  readonly plans: Plans
  readonly tierOf: (on: Transaction, accountId: string) => Promise<Tier>
  readonly totals: Pick<Totals, 'assertRoom'>
  readonly trafficOf: (projectId: string) => Promise<ResponseBody<'projects.traffic'>>
  readonly countDeployments: BatchedRead<string, number>
  readonly countDatabases: BatchedRead<string, number>
  /** The total size of a project's files in bytes. */
  readonly storedBytes: BatchedRead<string, number>
  /** Frees at once what other projects may want: the names of domains. Called in the transaction of a deletion. */
  readonly onDelete: OnDelete
}

export interface Projects {
  readonly handlers: HandlersOf<'projects'>
  lead(leader: ProjectsLeaderParts): ProjectsWork
}

export type ProjectsLeaderParts = Pick<LeaderParts, 'database'> & Pick<RemovalDependencies, 'removers'>

export interface ProjectsWork {
  readonly tasks: Readonly<Record<string, Task>>
}

export function createProjects(parts: ProjectsParts): Projects {
  const { database, regions, defaultRegion, plans, tierOf, totals, trafficOf } = parts
  const { countDeployments, countDatabases, storedBytes } = parts
  const requests = createProjectRequests({
    database,
    regions,
    defaultRegion,
    plans,
    tierOf,
    totals,
    trafficOf,
    counts: { countDeployments, countDatabases, storedBytes },
  })
  return {
    handlers: projectHandlers(requests, parts.onDelete),

    lead(leader) {
      const { removers } = leader
      return {
        tasks: {
          [removeProjectTask]: (job, signal) =>
            removeProject({ database: leader.database, removers }, String(job['project_id']), signal),
        },
      }
    },
  }
}
