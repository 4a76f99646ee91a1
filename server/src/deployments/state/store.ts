import type { Database } from '../../platform/database.ts'
import type { AppRows } from './apps.ts'
import { createJobTransitions, type JobTransitions } from './job-transitions.ts'
import { createJobReads, createProjectReads, type JobReads, type ProjectReads } from './reads.ts'
import { createRequestTransitions, type RequestTransitions } from './request-transitions.ts'

/**
 * The rows of deployments. Every change of state is one guarded UPDATE that says which states it may leave, and reports
 * when the row was in another.
 */
export interface DeploymentStore {
  /** For requests, within one project. */
  readonly ofProjects: ProjectReads
  /** For jobs, over all projects. */
  readonly rows: JobReads
  readonly requests: RequestTransitions
  readonly jobs: JobTransitions
}

export function createDeploymentStore(dependencies: {
  readonly database: Database
  readonly apps: AppRows
}): DeploymentStore {
  return {
    ofProjects: createProjectReads(dependencies),
    rows: createJobReads(dependencies),
    requests: createRequestTransitions(dependencies),
    jobs: createJobTransitions(dependencies),
  }
}
