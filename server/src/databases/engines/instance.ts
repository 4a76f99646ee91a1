import type pg from 'pg'
import { createAdminConnection } from './admin-connection.ts'
import { closeCatalogue } from './catalogue.ts'
import { createEmptyTemplate } from './empty-template.ts'
import { createRoles, type Roles } from './roles.ts'
import { createSessions, type Sessions } from './sessions.ts'
import { createStatistics, type Statistics } from './statistics.ts'
import { createStoredDatabases, type StoredDatabases } from './stored-databases.ts'

/**
 * A running PostgreSQL instance, administered by SQL alone. A database and its owner's role have the same name. Every
 * function can be repeated, however far an earlier call got before its server died.
 *
 * The administrator works in the engine's own database, which users cannot enter. The exceptions, `roles.takeOwnership`,
 * `roles.drop` and `closeCatalogue`, set a search path in which no object of a user is found.
 */
export interface Instance {
  readonly roles: Roles
  readonly databases: StoredDatabases
  readonly statistics: Statistics
  readonly sessions: Sessions
  /** Keeps a database that accepts connections from showing others in its catalogue. An administrator who is no superuser cannot. */
  closeCatalogue(name: string, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface OwnInstance {
  /** See `createStatistics`. */
  readonly sessionPlaces: number
}

/**
 * @param connection of an administrator, to a database that users cannot enter
 * @param own the options of an instance that no other server uses; `null` for one that its operator administers
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
