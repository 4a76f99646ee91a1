import type { Database } from '../platform/database.ts'
import type { ProjectsTables } from './tables.ts'

/** The job that removes a project that is being deleted. */
export const removeProjectTask = 'projects.remove'

export interface RemovalDependencies {
  readonly database: Database
  /** One function for each feature, which removes its resources of a project. Safe to repeat after an interruption. */
  readonly removers: readonly ((projectId: string) => Promise<void>)[]
}

/** Removes all resources of a project, feature by feature, and then the project. Safe to repeat after an interruption. */
export async function removeProject({ database, removers }: RemovalDependencies, projectId: string): Promise<void> {
  for (const remove of removers) await remove(projectId)
  // Fails when a resource was created meanwhile and refers to the project. The job's next attempt removes it.
  await database
    .withTables<ProjectsTables>()
    .deleteFrom('projects')
    .where('id', '=', projectId)
    .where('status', '=', 'deleting')
    .execute()
}
