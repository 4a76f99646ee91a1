import type { ResponseBody } from '../contract/operations.ts'

export interface ResourceCounts {
  readonly countDeployments: (projectId: string) => Promise<number>
  readonly countDatabases: (projectId: string) => Promise<number>
  /** The size of all files of a project in bytes. */
  readonly storedBytes: (projectId: string) => Promise<number>
}

/** Counts the resources of a project. */
export async function resourcesOf(
  { countDeployments, countDatabases, storedBytes }: ResourceCounts,
  projectId: string,
): Promise<ResponseBody<'projects.get'>['resources']> {
  const [deployments, databases, bytes] = await Promise.all([
    countDeployments(projectId),
    countDatabases(projectId),
    storedBytes(projectId),
  ])
  return { deployments, databases, storage_gb: bytes / 1e9 }
}
