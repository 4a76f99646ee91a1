import type { ResponseBody } from '../contract/operations.ts'
import type { BatchedRead } from '../platform/database/batcher.ts'
import type { Transaction } from '../platform/database.ts'

export interface ResourceCounts {
  readonly countDeployments: BatchedRead<string, number>
  readonly countDatabases: BatchedRead<string, number>
  /** The size of all files of a project in bytes. */
  readonly storedBytes: BatchedRead<string, number>
}

/** Counts the resources of a project, within a transaction on its connection. */
export async function resourcesOf(
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
