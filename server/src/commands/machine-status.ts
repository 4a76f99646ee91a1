import { sql } from 'kysely'
import type { PoolConfig } from 'pg'
import type { DeploymentStatus } from '../contract/deployments.ts'
import { edgeProcesses } from '../edge/edge.ts'
import { findGateways } from '../gateway/record.ts'
import type { Config } from '../platform/config.ts'
import { controlsOf, type ServerControl } from '../platform/control/client.ts'
import { type DataDirectory, dataDirectoryAt } from '../platform/data-directory.ts'
import { connectionTo } from '../platform/database/hosts.ts'
import { type Database, openDatabase } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import { privateAccess } from '../platform/postgres/access.ts'
import { type FoundCluster, findClusters } from '../platform/postgres/clusters.ts'
import { clusterUser } from '../platform/postgres/initialise.ts'
import { dateOf, type ProcessStat, readStat, startTimeOf, unsharedMemoryOf } from '../platform/processes.ts'
import {
  type AppProcesses,
  findAppProcesses,
  findBuilds,
  isServedSite,
  nameOfProcesses,
} from '../runtimes/leftovers.ts'
import type { Handle } from '../runtimes/runtime.ts'

/** A part of the server; `pid` and `since` are null while it does not run. */
interface Part {
  readonly pid: number | null
  readonly since: string | null
}

export interface ServerStatusLine extends Part {
  readonly id: string
  readonly version: string
  /** `unresponsive`: the process is alive but does not answer. */
  readonly state: 'starting' | 'ready' | 'stopping' | 'unresponsive'
  /** `null` when the server does not answer. */
  readonly leading: boolean | null
  readonly url: string | null
}

export interface GatewayStatus extends Part {
  readonly version: string
}

export interface EdgeStatus extends Part {
  readonly version: string | null
}

export interface ClusterStatus extends Part {
  readonly purpose: FoundCluster['purpose']
  readonly version: string
  readonly directory: string
}

export interface BuildStatus extends Part {
  readonly app_id: string
  readonly deployment_id: string
}

/** A release with its processes. Without the database, only data of the processes is present. */
export interface AppStatus {
  readonly project_id: string | null
  readonly project: string | null
  readonly app_id: string | null
  readonly name: string | null
  readonly deployment_id: string
  readonly status: DeploymentStatus | null
  readonly pid: number | null
  readonly since: string | null
  /** The memory of all processes of the release, without shared memory. */
  readonly memory_bytes: number | null
  /** True for a static site that is served: the gateway answers from its folder, without a process. */
  readonly site: boolean
}

export interface Status {
  readonly data_directory: string
  readonly servers: readonly ServerStatusLine[]
  readonly edges: readonly EdgeStatus[]
  readonly gateways: readonly GatewayStatus[]
  readonly clusters: readonly ClusterStatus[]
  readonly builds: readonly BuildStatus[]
  readonly apps: readonly AppStatus[]
  /** The reason why names and desired states are missing; `null` after the database was read. */
  readonly unread: string | null
  /** One sentence for each part that should run but does not. */
  readonly problems: readonly string[]
}

/** Reports which parts of a data directory run, with or without a running server. Starts nothing. */
export async function statusOf(config: Config, logger: Logger): Promise<Status> {
  const directory = dataDirectoryAt(config.dataDirectory)
  const [servers, clusters, edges, gateways, builds] = await Promise.all([
    controlsOf(directory.run).then((controls) => Promise.all(controls.map(serverLine))),
    findClusters(directory),
    edgeStatuses(directory),
    gatewayStatuses(directory),
    findBuilds(directory),
  ])
  const stored = await readStoredState(config, clusters, logger)
  const read = 'unread' in stored ? null : stored
  const apps = appStatuses(
    await findAppProcesses(directory),
    read?.deployments ?? null,
    await servedSites(read?.deployments ?? []),
  )
  return {
    data_directory: directory.root,
    servers,
    edges,
    gateways,
    clusters: clusters.map(({ purpose, version, directory, postmaster }) => ({
      purpose,
      version,
      directory,
      ...partOf(postmaster?.pid ?? null),
    })),
    builds: builds.map(({ appId: app_id, deploymentId: deployment_id, pid }) => ({
      app_id,
      deployment_id,
      ...partOf(pid),
    })),
    apps,
    unread: 'unread' in stored ? stored.unread : null,
    problems: [
      ...servers.flatMap(({ state, pid }) => (state === 'unresponsive' ? [`server ${pid} does not answer`] : [])),
      ...edgeProblems(config, edges, servers.length > 0),
      ...(gateways.length > 0 && gateways.every(({ pid }) => pid === null) ? ['the gateway does not run'] : []),
      ...clusterProblems(config, clusters, read),
      ...apps.flatMap(({ name, deployment_id, status, pid, site }) =>
        status === 'running' && pid === null && !site ? [`app ${name ?? deployment_id} does not run`] : [],
      ),
    ],
  }
}

const partOf = (pid: number | null): Part => ({ pid, since: pid === null ? null : sinceOf(pid) })

function sinceOf(pid: number): string | null {
  const startTime = startTimeOf(pid)
  return startTime === null ? null : (dateOf(startTime)?.toISOString() ?? null)
}

async function serverLine({ record, status }: ServerControl): Promise<ServerStatusLine> {
  const { id, version, pid, startedAt: since } = record
  const answer = await status().catch(() => null)
  return {
    id,
    version,
    pid,
    since,
    state: answer?.state ?? 'unresponsive',
    leading: answer?.leading ?? null,
    url: answer?.url ?? null,
  }
}

async function gatewayStatuses(directory: Pick<DataDirectory, 'root'>): Promise<GatewayStatus[]> {
  const found = await findGateways(directory)
  return found.map(({ pid, version, isRunning }) => ({ version, ...partOf(isRunning ? pid : null) }))
}

async function edgeStatuses(directory: Pick<DataDirectory, 'root'>): Promise<EdgeStatus[]> {
  const found = await edgeProcesses(directory.root)
  return found.map(({ pid, version, isRunning }) => ({ version, ...partOf(isRunning ? pid : null) }))
}

/** Returns a problem for an edge that does not run. Without a server, only an edge that ran before should run. */
function edgeProblems({ edge }: Pick<Config, 'edge'>, edges: readonly EdgeStatus[], hasServer: boolean): string[] {
  const isMissed = edge !== null && (hasServer || edges.length > 0)
  return isMissed && edges.every(({ pid }) => pid === null) ? ['the edge does not run: there is no HTTPS'] : []
}

function clusterProblems(
  { databaseUrl }: Pick<Config, 'databaseUrl'>,
  clusters: readonly FoundCluster[],
  stored: StoredState | null,
): string[] {
  const runs = (purpose: FoundCluster['purpose'], version?: string) =>
    clusters.some((each) => each.purpose === purpose && each.postmaster && (version ?? each.version) === each.version)
  const isCreated = clusters.some(({ purpose }) => purpose === 'state')
  const users = (stored?.clusterVersions ?? []).filter((version) => !runs('users', version))
  return [
    ...(databaseUrl === undefined && isCreated && !runs('state') ? ["the server's own PostgreSQL does not run"] : []),
    ...users.map((version) => `PostgreSQL ${version} of users' databases does not run`),
  ]
}

/**
 * Matches processes with deployments.
 *
 * @param stored `null` when the database could not be read
 * @param sites the releases that are served as static sites
 */
function appStatuses(
  processes: AppProcesses,
  stored: readonly StoredDeployment[] | null,
  sites: ReadonlySet<string>,
): readonly AppStatus[] {
  // Apps of other runtimes have no processes here and would seem to be down.
  const rows = (stored ?? []).filter(({ runtime }) => runtime === nameOfProcesses)
  const known = new Set(rows.map(({ id }) => id))
  return [
    ...rows.map((row) => ({
      project_id: row.project_id,
      project: row.project_name,
      app_id: row.app_id,
      name: row.app_name,
      deployment_id: row.id,
      status: row.status,
      ...measure(processes.get(row.id) ?? [], row.instance?.data['pid']),
      site: sites.has(row.id),
    })),
    ...[...processes]
      .filter(([id]) => !known.has(id))
      .map(([id, pids]) => ({
        project_id: null,
        project: null,
        app_id: null,
        name: null,
        deployment_id: id,
        status: null,
        ...measure(pids),
        site: false,
      })),
  ]
}

function measure(pids: readonly number[], recorded?: unknown): Pick<AppStatus, 'pid' | 'since' | 'memory_bytes'> {
  const stats = pids.map((pid) => readStat(pid)).filter((stat): stat is ProcessStat => stat !== null)
  const oldest = stats.toSorted((a, b) => Number(a.startTime) - Number(b.startTime) || a.pid - b.pid)[0]
  const first = stats.find(({ pid }) => pid === recorded) ?? oldest
  if (first === undefined) return { pid: null, since: null, memory_bytes: null }
  const memory_bytes = pids.reduce((sum, pid) => sum + unsharedMemoryOf(pid), 0)
  return { pid: first.pid, since: dateOf(first.startTime)?.toISOString() ?? null, memory_bytes }
}

async function servedSites(stored: readonly StoredDeployment[]): Promise<Set<string>> {
  const served = await Promise.all(
    stored.map(async ({ id, instance }) => (instance !== null && (await isServedSite(instance)) ? [id] : [])),
  )
  return new Set(served.flat())
}

const deadlineMs = 5_000

interface StoredDeployment {
  readonly id: string
  readonly status: DeploymentStatus
  readonly runtime: string
  readonly instance: Handle | null
  readonly app_id: string
  readonly app_name: string
  readonly project_id: string
  readonly project_name: string
}

interface StoredState {
  readonly deployments: readonly StoredDeployment[]
  /** Versions of the embedded clusters with databases in use. */
  readonly clusterVersions: readonly string[]
}

/**
 * Reads the state from the database, or returns the reason why the database cannot be read. Starts and changes nothing.
 */
async function readStoredState(
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
    // The message may contain the address with a password.
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
