import type { Transaction } from '../../platform/database.ts'
import type { CloseOptions } from '../../platform/postgres/cluster.ts'
import type { Instance } from './instance.ts'

/** Host and port in the connection strings of one version's databases. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** The major version and port of a PostgreSQL instance, as the rows of its databases have them. */
export interface InstanceKey {
  readonly version: string
  readonly port: number
}

/** The interface to the PostgreSQL instances that hold users' databases, one for each major version. */
export interface Engine {
  readonly name: 'embedded' | 'external'
  /** Returns the major versions that can be chosen, oldest first. */
  versions(): Promise<readonly string[]>
  /** Returns the address of a version's databases. It never changes, and is known before the instance first runs. */
  addressOf(transaction: Transaction, version: string): Promise<Address>
  /**
   * Returns the instance of a version; installs, creates and starts it first where needed. Rejects with an `EngineError`
   * that says what prevents it. Asks nothing of the state database, so that it may be called inside a transaction.
   */
  open(key: InstanceKey, signal: AbortSignal): Promise<Instance>
  /** Returns the instances that were opened, by version; `null` for one that did not start at the last attempt. */
  instances(): ReadonlyMap<string, Instance | null>
  /** True when the instance of a version was created, so that there may be databases in it. */
  exists(version: string): Promise<boolean>
  /**
   * Ends the sessions of every database that holds more than `maxLocks` locks, and returns the OIDs of these databases.
   * Does nothing on a server that its operator administers.
   */
  limitLocks(maxLocks: number): Promise<readonly number[]>
  /**
   * Ends connections that do not log in, beyond what there is room for, and returns how many. Does nothing on a server that its
   * operator administers.
   */
  limitLogins(): Promise<number>
  /** Returns the certificate of the authority of the server's own clusters as PEM; `null` on a server that its operator administers. */
  authority(): Promise<string | null>
  /** Renews the certificate of the server's own clusters before it expires. */
  renewCertificate(): Promise<void>
  /** Closes the connections, and stops clusters of the server's own unless they are to be kept. */
  close(options?: CloseOptions): Promise<void>
}

/** An engine cannot be used. The message is shown to the user whose request or database needs it. */
export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly code: 'version_unavailable' | 'engine_unavailable'

  constructor(code: EngineError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Opens the instance of a database's row. Rejects when the row's database is in another engine than the configured one. */
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
