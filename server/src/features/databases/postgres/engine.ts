import type pg from 'pg'
import type { Transaction } from '../../../platform/database.ts'
import type { CloseOptions } from '../../../platform/postgres/cluster.ts'
import { createAdminConnection } from './admin-connection.ts'
import { closeCatalogue, createEmptyTemplate } from './catalogue.ts'
import { createRoles, type Roles } from './roles.ts'
import { createSessions, type Sessions } from './sessions.ts'
import { createStatistics, type Statistics } from './statistics.ts'
import { createStoredDatabases, type StoredDatabases } from './stored-databases.ts'

interface Address {
  readonly host: string
  readonly port: number
}

export interface InstanceKey {
  readonly version: string
  readonly port: number
}

export interface Engine {
  readonly name: 'embedded' | 'external'
  versions(): Promise<readonly string[]>
  /** Returns the address of a version's databases. It never changes, and exists before the instance first runs. */
  addressOf(transaction: Transaction, version: string): Promise<Address>
  /**
   * Returns the instance of a version; installs, creates and starts it first if needed. Rejects with an `EngineError`
   * that states the reason. Does not use the state database, so it may be called inside a transaction.
   */
  open(key: InstanceKey, signal: AbortSignal): Promise<Instance>
  /** Returns the opened instances by version; `null` for an instance whose last start failed. */
  instances(): ReadonlyMap<string, Instance | null>
  /** True when the instance of a version was created and may therefore hold databases. */
  exists(version: string): Promise<boolean>
  /**
   * Ends the sessions of every database that holds more than `maxLocks` locks, and returns the OIDs of these databases.
   * Does nothing on an external server.
   */
  limitLocks(maxLocks: number): Promise<readonly number[]>
  /**
   * Ends connections that have not logged in, beyond the available room, and returns their number. Does nothing on an
   * external server.
   */
  limitLogins(): Promise<number>
  /** Returns the certificate of the authority of the embedded clusters as PEM; `null` for an external server. */
  authority(): Promise<string | null>
  renewCertificate(): Promise<void>
  /** Closes the connections, and stops the embedded clusters unless `options` keep them. */
  close(options?: CloseOptions): Promise<void>
}

/** The error for an engine that cannot be used. The user whose request or database needs it sees the message. */
export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly code: 'version_unavailable' | 'engine_unavailable'

  constructor(code: EngineError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Opens the instance of a database's row. Rejects when the row belongs to another engine than the configured one. */
export async function openInstanceOf(
  engine: Pick<Engine, 'name' | 'open'>,
  row: InstanceKey & { readonly engine: Engine['name'] },
  signal: AbortSignal,
): Promise<Instance> {
  if (row.engine !== engine.name) {
    const message = `This database is in the ${row.engine} engine, and the server runs with the ${engine.name} one.`
    throw new EngineError('engine_unavailable', message)
  }
  return engine.open(row, signal)
}

/**
 * A running PostgreSQL instance, administered only by SQL. A database and its owner role have the same name. Every
 * function can be repeated, no matter how far an earlier call got before its server died.
 *
 * The administrator works in the engine's administrative database, which users cannot enter. The exceptions
 * `roles.takeOwnership`, `roles.drop` and `closeCatalogue` set a search path that contains no object of a user.
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

interface OwnInstance {
  readonly maxUserSessions: number
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
    statistics: createStatistics(admin, own?.maxUserSessions ?? null),
    sessions: createSessions(admin),
    async closeCatalogue(name, signal) {
      if (await admin.isSuperuser()) await admin.runInside(name, closeCatalogue, signal)
    },
    close: admin.close,
  }
}
