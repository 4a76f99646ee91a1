import type { Database } from '../../platform/database.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { RegistryCredentials } from '../../runtimes/runtime.ts'
import { tablesOf } from './tables.ts'

/** Binds an encrypted password to its project and its registry. */
export const passwordContext = (projectId: string, registry: string): string => `${projectId} registry ${registry}`

/** Returns the credentials that a project has for a registry; null without. */
export type CredentialsFor = (projectId: string, registry: string) => Promise<RegistryCredentials | null>

export function createCredentialsFor(given: {
  readonly database: Database
  readonly secretBox: SecretBox
}): CredentialsFor {
  return async (projectId, registry) => {
    const stored = await tablesOf(given.database)
      .selectFrom('registries')
      .select(['username', 'password'])
      .where('project_id', '=', projectId)
      .where('registry', '=', registry)
      .executeTakeFirst()
    if (stored === undefined) return null
    const { username, password } = stored
    return { username, password: given.secretBox.decrypt(password, passwordContext(projectId, registry)) }
  }
}
