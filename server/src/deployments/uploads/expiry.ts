import type { Database } from '../../platform/database.ts'
import type { SourceFiles } from './files.ts'
import { deleteExpired, deleteOfProject, knownSources } from './rows.ts'

/** Removes uploaded sources; for the leader. */
export interface SourceExpiry {
  /** Removes those that were unused for long, and files that have no row. */
  forget(): Promise<void>
  /** Removes those of a project to which nothing can be uploaded any more. */
  removeProject(projectId: string): Promise<void>
}

export function createSourceExpiry(dependencies: {
  readonly database: Database
  readonly files: Pick<SourceFiles, 'settled' | 'remove'>
  /** How many days a source is kept after its last use. */
  readonly days: number
}): SourceExpiry {
  const { database, files, days } = dependencies
  return {
    async forget() {
      await deleteExpired(database, days)
      const stored = await files.settled()
      const known = await knownSources(database, stored)
      for (const id of stored) if (!known.has(id)) await files.remove(id)
    },
    async removeProject(projectId) {
      const ids = await deleteOfProject(database, projectId)
      for (const id of ids) await files.remove(id)
    },
  }
}
