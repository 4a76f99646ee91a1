import type { Database } from '../platform/database.ts'
import type { ProjectsTables } from './tables.ts'

/** The job that removes a project that is being deleted. */
export const removeProjectTask = 'projects.remove'

export interface RemovalDependencies {
  readonly database: Database
  /** What each feature does to remove all that it has of a project; may be called again after a half-way end. */
  readonly removers: readonly ((projectId: string) => Promise<void>)[]
}

/** Removes everything in a project, feature by feature, and then the project. Called again, it goes on where it was. */
export async function removeProject({ database, removers }: RemovalDependencies, projectId: string): Promise<void> {
  for (const remove of removers) await remove(projectId)
  // What was being created meanwhile still points to the project: then this fails, and the job's next try removes it.
  await database
    .withTables<ProjectsTables>()
    .deleteFrom('projects')
    .where('id', '=', projectId)
    .where('status', '=', 'deleting')
    .execute()
}
