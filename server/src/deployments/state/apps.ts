import type { PublicAddress } from '../../gateway/client.ts'
import type { Database, Transaction } from '../../platform/database.ts'

/** An app as deployments see it. */
export interface App {
  readonly id: string
  readonly name: string
  readonly number: number
  readonly address: PublicAddress
}

/** Reads and locks of apps that a change of a deployment's state needs; the apps feature has them. */
export interface AppRows {
  lock(transaction: Transaction, id: string): Promise<void>
  /** Counts the app's generation up, under its lock, and returns it. */
  nextGeneration(transaction: Transaction, id: string): Promise<number>
  delete(transaction: Transaction, id: string): Promise<void>
  deleteProject(transaction: Transaction, projectId: string): Promise<void>
}

/** Finds apps. */
export interface AppDirectory {
  /** Throws when there is no such app. */
  get(id: string): Promise<App>
  byIds(on: Database | Transaction, ids: readonly string[]): Promise<ReadonlyMap<string, App>>
  list(): Promise<App[]>
  ofProject(projectId: string): Promise<App[]>
}
