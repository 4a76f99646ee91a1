import type pg from 'pg'
import { createAdminConnection } from './admin-connection.ts'
import { closeCatalogue } from './catalogue.ts'
import { createEmptyTemplate } from './empty-template.ts'
import { createRoles, type Roles } from './roles.ts'
import { createSessions, type Sessions } from './sessions.ts'
import { createStatistics, type Statistics } from './statistics.ts'
import { createStoredDatabases, type StoredDatabases } from './stored-databases.ts'

/**
 * A running PostgreSQL instance, administered only by SQL. A database and its owner role have the same name. Every
 * function can be repeated, no matter how far an earlier call got before its server died.
 *
 * The administrator works in the engine's own database, which users cannot enter. The exceptions `roles.takeOwnership`,
 * `roles.drop` and `closeCatalogue` set a search path that contains no object of a user.
 */
export interface Instance {
  readonly roles: Roles
  readonly databases: StoredDatabases
  readonly statistics: Statistics
  readonly sessions: Sessions
  /**
   * Hides other databases in the catalogue of an open database. Does nothing if the administrator is not a superuser.
   */
  closeCatalogue(name: string, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface OwnInstance {
  /** See `createStatistics`. */
  readonly sessionPlaces: number
}

/**
 * @param connection of an administrator, to a database that users cannot enter
 * @param own the options of an instance that no other server uses; `null` for the operator's own server
 */
export function createInstance(
  connection: pg.PoolConfig,
  onLost: (error: Error) => void,
  own: OwnInstance | null = null,
): Instance {
  const admin = createAdminConnection(connection, onLost)
  return {
    roles: createRoles(admin),
    databases: createStoredDatabases(admin, own === null ? null : createEmptyTemplate(admin)),
    statistics: createStatistics(admin, own?.sessionPlaces ?? null),
    sessions: createSessions(admin),
    async closeCatalogue(name, signal) {
      if (await admin.isSuperuser()) await admin.runInside(name, closeCatalogue, signal)
    },
    close: admin.close,
  }
}
