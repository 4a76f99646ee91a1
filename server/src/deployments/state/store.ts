import type { Database } from '../../platform/database.ts'
import type { AppRows } from './apps.ts'
import { createInstanceRows, type InstanceRows } from './instances.ts'
import { createJobTransitions, type JobTransitions } from './job-transitions.ts'
import { createScales, type Scales } from './processes.ts'
import {
  createJobReads,
  createProjectReads,
  createReleaseReads,
  type JobReads,
  type ProjectReads,
  type ReleaseReads,
} from './reads.ts'
import { createRequestTransitions, type RequestTransitions } from './request-transitions.ts'

/**
 * The rows of deployments. Every change of state is one guarded UPDATE that says which states it may leave, and reports
 * when the row was in another.
 */
export interface DeploymentStore {
  /** For requests, within one project. */
  readonly ofProjects: ProjectReads
  /** For requests, within apps of one project. */
  readonly releases: ReleaseReads
  /** For jobs, over all projects. */
  readonly rows: JobReads
  readonly requests: RequestTransitions
  readonly jobs: JobTransitions
  readonly instances: InstanceRows
  readonly scales: Scales
}

export function createDeploymentStore(dependencies: {
  readonly database: Database
  readonly apps: AppRows
}): DeploymentStore {
  return {
    ofProjects: createProjectReads(dependencies),
    releases: createReleaseReads(dependencies),
    rows: createJobReads(dependencies),
    requests: createRequestTransitions(dependencies),
    jobs: createJobTransitions(dependencies),
    instances: createInstanceRows(dependencies),
    scales: createScales(dependencies),
  }
}
