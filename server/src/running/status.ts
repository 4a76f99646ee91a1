import type { Config } from '../platform/config.ts'
import { controlsOf, type ServerControl } from '../platform/control/client.ts'
import { type DataDirectory, dataDirectoryAt } from '../platform/data-directory.ts'
import type { Logger } from '../platform/logger.ts'
import { dateOf, startTimeOf } from '../platform/processes.ts'
import { findAppProcesses } from './app-processes.ts'
import { type AppStatus, appStatuses, servedSites } from './app-status.ts'
import { findBuilds } from './builds.ts'
import { type FoundCluster, findClusters } from './clusters.ts'
import { findEdges } from './edges.ts'
import { findGateways } from './gateways.ts'
import { readStoredState, type StoredState } from './stored-state.ts'

/** A part of the server; `pid` and `since` are null while it does not run. */
interface Part {
  readonly pid: number | null
  /** RFC 3339. */
  readonly since: string | null
}

export interface ServerStatusLine extends Part {
  readonly id: string
  readonly version: string
  /** `unresponsive` when the process is alive but its socket does not answer. */
  readonly state: 'starting' | 'ready' | 'stopping' | 'unresponsive'
  /** `null` when the server does not answer. */
  readonly leading: boolean | null
  readonly url: string | null
}

export interface GatewayStatus extends Part {
  readonly version: string
}

/** A Caddy that serves HTTPS. */
export interface EdgeStatus extends Part {
  /** `null` when the version is unknown. */
  readonly version: string | null
}

export interface ClusterStatus extends Part {
  readonly purpose: FoundCluster['purpose']
  readonly version: string
  readonly directory: string
}

/** An engine that builds a Dockerfile. */
export interface BuildStatus extends Part {
  readonly app_id: string
  readonly deployment_id: string
}

/** All parts of one data directory that run or should run. */
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
  const found = await findEdges(directory)
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
