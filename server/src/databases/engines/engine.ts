import type { Transaction } from '../../platform/database.ts'
import type { CloseOptions } from '../../platform/postgres/cluster.ts'
import type { Instance } from './instance.ts'

/** The host and port in the connection strings of a version's databases. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** The major version and port of a PostgreSQL instance, as its databases' rows have them. */
export interface InstanceKey {
  readonly version: string
  readonly port: number
}

/** The interface to the PostgreSQL instances that hold users' databases, one for each major version. */
export interface Engine {
  readonly name: 'embedded' | 'external'
  /** Returns the available major versions, oldest first. */
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
  /** Renews the certificate of the embedded clusters before it expires. */
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
