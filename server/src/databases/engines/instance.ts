import type pg from 'pg'
import { createAdminConnection } from './admin-connection.ts'
import { createRoles, type Roles } from './roles.ts'
import { createStatistics, type Statistics } from './statistics.ts'
import { createStoredDatabases, type StoredDatabases } from './stored-databases.ts'

/**
 * A running PostgreSQL instance, administered by SQL alone. A database and its owner's role have the same name. Every
 * function can be repeated, however far an earlier call got before its server died.
 *
 * The administrator works in the engine's own database, which users cannot enter. The exceptions, `roles.takeOwnership`
 * and `roles.drop`, set a search path in which no object of a user is found.
 */
export interface Instance {
  readonly roles: Roles
  readonly databases: StoredDatabases
  readonly statistics: Statistics
  close(): Promise<void>
}

/** @param connection of an administrator, to a database that users cannot enter */
export function createInstance(connection: pg.PoolConfig, onLost: (error: Error) => void): Instance {
  const admin = createAdminConnection(connection, onLost)
  return {
    roles: createRoles(admin),
    databases: createStoredDatabases(admin),
    statistics: createStatistics(admin),
    close: admin.close,
  }
}
