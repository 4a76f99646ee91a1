import type { Transaction } from '../platform/database.ts'
import type { Instance } from './instance.ts'

/** Where the databases of one version are reached. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** What users' databases lie in. One that runs containers would be another of these. */
export interface Engine {
  readonly name: 'embedded' | 'external'
  /** The major versions that there are, oldest first. */
  versions(): Promise<readonly string[]>
  /** The address of a version's databases, known before anything of it runs, and the same for good. */
  addressOf(transaction: Transaction, version: string): Promise<Address>
  /**
   * The engine of a version, brought up when it does not run: installed, made and started. Rejects with an `EngineError`
   * that says what is in the way.
   */
  open(version: string, signal: AbortSignal): Promise<Instance>
  /** Whether there can be anything in it yet. */
  exists(version: string): Promise<boolean>
  /** The same as `open`, if it is up. */
  running(version: string): Instance | null
  close(): Promise<void>
}

/** Why an engine cannot be used; the message is for the one who asked for a database. */
export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly code: 'version_unavailable' | 'engine_unavailable'

  constructor(code: EngineError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}
