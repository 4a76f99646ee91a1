import { endEdgeProcesses } from './edge/edge.ts'
import { endGateways } from './gateway/record.ts'
import type { DataDirectory } from './platform/data-directory.ts'
import type { Logger } from './platform/logger.ts'
import { findClusters } from './platform/postgres/clusters.ts'
import { stopRunningCluster } from './platform/postgres/session.ts'
import { endAppProcesses, endBuilds } from './runtimes/leftovers.ts'

/** The time for edge, gateways and apps to end before SIGKILL, in milliseconds. */
const graceMs = 10_000

/**
 * Ends what a data directory left running after its last server: a server that did not lead owns no apps. Keeps
 * clusters that other processes use.
 */
export async function endLeftovers({
  directory,
  logger,
}: {
  readonly directory: DataDirectory
  readonly logger: Pick<Logger, 'info'>
}): Promise<void> {
  const edges = await endEdgeProcesses(directory.root, { graceMs })
  const gateways = await endGateways(directory, { graceMs })
  const builds = await endBuilds(directory)
  const releases = await endAppProcesses(directory, { graceMs })
  const users = (await findClusters(directory)).filter(({ purpose }) => purpose === 'users')
  const stopped: string[] = []
  for (const cluster of users) {
    if (await stopRunningCluster(cluster.directory, { force: false })) stopped.push(cluster.version)
  }
  if (edges.length + gateways.length + builds.length + releases.length + stopped.length === 0) return
  const ended = { edges: edges.length, gateways: gateways.length, builds: builds.length, releases, clusters: stopped }
  logger.info(ended, 'ended what this server did not run itself')
}
