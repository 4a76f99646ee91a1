import { type Selectable, sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { DeploymentsTables } from './tables.ts'

export type DeploymentRow = Selectable<DeploymentsTables['deployments']>

/** A deployment with the name and the address of its app. */
export interface DeploymentWithApp extends DeploymentRow {
  readonly app_name: string
  readonly port: number | null
  readonly hostname: string | null
}

/** One deployment, with the one of its app that was wanted last. */
export interface DeploymentInFull extends DeploymentWithApp {
  readonly latest_id: string
}

/** The states in which nothing is done for a deployment any more, and nothing of it runs. */
export const restingStatuses = ['failed', 'canceled', 'superseded', 'stopped'] as const

/** This feature's tables, in a transaction or out of one. */
export const tablesOf = (on: Database | Transaction) => on.withTables<DeploymentsTables>()

/** The columns of a deployment whose work has ended: it has an end, and what only the work needed is forgotten. */
export const atRest = { finished_at: sql<Date>`coalesce(finished_at, now())`, git_token: null }

/**
 * Waits for a change of a deployment that is not committed yet: else a guarded change looks at the state before it, and
 * who asks why it was refused is told of the state after it.
 */
export async function lockDeployment(transaction: Transaction, id: string): Promise<void> {
  await tablesOf(transaction).selectFrom('deployments').select('id').where('id', '=', id).forUpdate().execute()
}

/** Lets changes that touch several deployments of one app happen one after the other. */
export async function lockApp(transaction: Transaction, appId: string): Promise<void> {
  await tablesOf(transaction).selectFrom('apps').select('id').where('id', '=', appId).forUpdate().execute()
}
