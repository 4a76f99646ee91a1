import type { Database } from '../../platform/database.ts'
import { createProgress, type Progress } from './progress.ts'
import { createReads, type Reads } from './reads.ts'
import { createWishes, type Wishes } from './transitions.ts'

export type { ReleaseFacts, Wish } from './progress.ts'
export type { DeploymentInFull, DeploymentRow, DeploymentWithApp } from './rows.ts'

/**
 * The deployments' rows: reads, what owners change and what the work on them changes. Every change of state is one
 * guarded UPDATE: it says which states it may leave, and gives nothing when the row was in another.
 */
export interface DeploymentStore extends Reads, Wishes, Progress {}

export function createDeploymentStore({ database }: { database: Database }): DeploymentStore {
  return { ...createReads({ database }), ...createWishes(), ...createProgress({ database }) }
}
