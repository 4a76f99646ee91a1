import { sql } from 'kysely'
import type { PoolConfig } from 'pg'
import type { DeploymentStatus } from '../contract/deployments.ts'
import type { Config } from '../platform/config.ts'
import { connectionTo } from '../platform/database/hosts.ts'
import { type Database, openDatabase } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import { privateAccess } from '../platform/postgres/access.ts'
import { clusterUser } from '../platform/postgres/initialise.ts'
import type { Handle } from '../runtimes/runtime.ts'
import type { FoundCluster } from './clusters.ts'

const deadlineMs = 5_000

/** A deployment that is building or running, or the latest deployment of an app. */
export interface StoredDeployment {
  readonly id: string
  readonly status: DeploymentStatus
  readonly runtime: string
  readonly instance: Handle | null
  readonly app_id: string
  readonly app_name: string
  readonly project_id: string
  readonly project_name: string
}

/** The parts that should run according to the database. */
export interface StoredState {
  readonly deployments: readonly StoredDeployment[]
  /** The versions of the embedded clusters that hold databases in use. */
  readonly clusterVersions: readonly string[]
}

/**
 * Reads the state from the database, or returns the reason why the database cannot be read. Starts and changes nothing.
 */
export async function readStoredState(
  { databaseUrl }: Pick<Config, 'databaseUrl'>,
  clusters: readonly FoundCluster[],
  logger: Logger,
): Promise<StoredState | { readonly unread: string }> {
  const connection = databaseUrl === undefined ? ownConnection(clusters) : connectionTo(databaseUrl)
  if (connection === null) {
    const isOwn = clusters.some(({ purpose }) => purpose === 'state')
    return { unread: isOwn ? "the server's own PostgreSQL does not run" : 'DATABASE_URL is not set here' }
  }
  const options = { ...connection, max: 1, connectionTimeoutMillis: deadlineMs, statement_timeout: deadlineMs }
  const handle = openDatabase({ ...options, application_name: 'fairlead status' }, logger)
  try {
    return { deployments: await readDeployments(handle.db), clusterVersions: await readClusterVersions(handle.db) }
  } catch (error) {
    // Only the code: the message may contain the address with a password.
    const { code } = error as { readonly code?: string }
    return { unread: `the database cannot be read${code === undefined ? '' : ` (${code})`}` }
  } finally {
    await handle.close().catch(() => undefined)
  }
}

/** Returns the settings to connect to the server's own cluster by its socket; `null` when it accepts no connections. */
function ownConnection(clusters: readonly FoundCluster[]): PoolConfig | null {
  const postmaster = clusters.find(({ purpose }) => purpose === 'state')?.postmaster ?? null
  if (postmaster === null || postmaster.status !== 'ready') return null
  const { port, socketDirectory: host } = postmaster
  return { host, port, user: clusterUser, database: privateAccess.database, ssl: false }
}

async function readDeployments(db: Database): Promise<readonly StoredDeployment[]> {
  const { rows } = await sql<StoredDeployment>`
    select d.id, d.status, d.runtime, d.instance, a.id as app_id, a.name as app_name, p.id as project_id,
      p.name as project_name
    from deployments d join apps a on a.id = d.app_id join projects p on p.id = d.project_id
    where d.status in ('building', 'running') or d.generation = a.generation
    order by p.name, p.id, a.name, d.generation`.execute(db)
  return rows
}

async function readClusterVersions(db: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ version: string }>`
    select distinct version from databases where engine = 'embedded' and status = 'available'`.execute(db)
  return rows.map(({ version }) => version)
}
