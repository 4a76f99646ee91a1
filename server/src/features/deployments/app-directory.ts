import type { PublicAddress } from '../../gateway/client.ts'
import type { PageRequest } from '../../http/page.ts'
import type { Database, Transaction } from '../../platform/database.ts'

export interface App {
  readonly id: string
  readonly name: string
  readonly number: number
  readonly address: PublicAddress
}

/** Reads and locks of apps that state changes of deployments need. */
export interface AppRows {
  lock(transaction: Transaction, id: string): Promise<void>
  /** Increments the generation under the app's lock. Throws `not_found`. */
  nextGeneration(transaction: Transaction, id: string): Promise<number>
  delete(transaction: Transaction, id: string): Promise<void>
  deleteProject(transaction: Transaction, projectId: string): Promise<void>
}

export interface OwnedApp extends App {
  readonly createdAt: Date
}

export interface OwnedApps {
  page(
    projectId: string,
    page: PageRequest,
  ): Promise<{ readonly apps: readonly OwnedApp[]; readonly next: string | null }>
  find(on: Database | Transaction, projectId: string, id: string): Promise<OwnedApp | undefined>
  /** Locks an app until the transaction ends. Throws `not_found`. */
  hold(transaction: Transaction, projectId: string, id: string): Promise<OwnedApp>
  /** Throws `invalid_request` when another app of the project has the name. */
  rename(
    transaction: Transaction,
    app: { readonly id: string; readonly projectId: string },
    name: string,
  ): Promise<void>
}

export interface AppDirectory {
  get(id: string): Promise<App>
  byIds(on: Database | Transaction, ids: readonly string[]): Promise<ReadonlyMap<string, App>>
  list(): Promise<App[]>
  ofProject(projectId: string): Promise<App[]>
}

export interface AppStore extends AppDirectory, AppRows, OwnedApps {
  /** Returns the app of this name, locked for the transaction; creates it with a new address when there is none. */
  findOrCreate(
    transaction: Transaction,
    project: { readonly id: string },
    name: string,
  ): Promise<{ readonly app: App; readonly isNew: boolean }>
}
