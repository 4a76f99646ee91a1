import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { endEdgeProcesses } from '../edge/edge.ts'
import { endGateways } from '../gateway/record.ts'
import { controlsOf, type ServerControl, type ServerRecord } from '../platform/control/client.ts'
import { type DataDirectory, dataDirectoryAt } from '../platform/data-directory.ts'
import { findClusters } from '../platform/postgres/clusters.ts'
import { stopRunningCluster } from '../platform/postgres/session.ts'
import { killAll, sendSignal } from '../platform/processes.ts'
import { endAppProcesses, endBuilds, endContainers } from '../runtimes/leftovers.ts'

const pollMs = 50
/** The time between SIGTERM and SIGKILL for a server that does not answer, as part of the whole timeout. */
const unresponsiveMs = 5_000
/** A killed process disappears at once, but the kernel may wait for a disk. */
const killedMs = 5_000

/**
 * Stops the servers, each of which finishes its requests, then edge, gateway, apps and clusters of a data directory.
 * Ends only processes that provably belong to it. May be repeated; resolves when nothing is left.
 *
 * @param options.timeoutMs how long servers may take; then they are ended by force. So are edge, gateway and apps,
 *   after at most ten seconds
 * @param options.report called with one line for each stopped part
 * @throws Error when something could not be stopped
 */
export async function stopEverything(options: {
  readonly dataDirectory: string
  readonly timeoutMs: number
  readonly report: (line: string) => void
}): Promise<void> {
  const { dataDirectory, timeoutMs, report } = options
  const directory = dataDirectoryAt(dataDirectory)
  const servers = await controlsOf(directory.run)
  await Promise.all(servers.map((server) => stopServer(server, timeoutMs, report)))
  const started = await controlsOf(directory.run)
  if (started.length > 0) {
    const pids = started.map(({ record }) => record.pid).join(', ')
    throw new Error(
      `A server was started during the stop (pid ${pids}) and keeps the apps and databases. Stop it again.`,
    )
  }
  const graceMs = Math.min(timeoutMs, 10_000)
  // Before the gateway, so that accepted requests are answered.
  for (const { pid, version } of await endEdgeProcesses(directory.root, { graceMs })) {
    report(`stopped the edge${version === null ? '' : `, Caddy ${version}`} (pid ${pid})`)
  }
  for (const { pid, version } of await endGateways(directory, { graceMs })) {
    report(`stopped the gateway ${version} (pid ${pid})`)
  }
  for (const { deploymentId, pid } of await endBuilds(directory)) {
    report(`stopped the build of the Dockerfile of ${deploymentId} (pid ${pid})`)
  }
  const releases = await endAppProcesses(directory, { graceMs })
  if (releases.length > 0)
    report(`stopped ${releases.length === 1 ? 'one app' : `${releases.length} apps`}: ${releases.join(', ')}`)
  // An unreachable engine must not keep the other parts running: its error is thrown at the end.
  const [contained] = await Promise.allSettled([endContainers(directory, { graceMs })])
  if (contained.status === 'fulfilled' && contained.value.length > 0)
    report(`stopped the containers of ${contained.value.join(', ')}`)
  // A killed server may leave git processes, which have this configuration.
  const git = { name: 'GIT_CONFIG_GLOBAL', value: join(directory.git, 'config') }
  await killAll({ marker: git }, { graceMs: 0 })
  await stopClusters(directory, report)
  // Removes the control files of servers that were ended by force.
  await controlsOf(directory.run)
  if (contained.status === 'rejected') throw contained.reason
}

/** Stops a server, by force after `timeoutMs`. The server may end at any moment, even before a signal reaches it. */
export async function stopServer(
  server: Pick<ServerControl, 'stop' | 'isRunning'> & { readonly record: Pick<ServerRecord, 'pid' | 'version'> },
  timeoutMs: number,
  report: (line: string) => void,
): Promise<void> {
  const { pid, version } = server.record
  const asked = await server.stop('server').then(
    () => true,
    () => false,
  )
  if (!asked && (await server.isRunning())) sendSignal(pid, 'SIGTERM')
  if (await ends(server, asked ? timeoutMs : Math.min(timeoutMs, unresponsiveMs))) {
    report(`stopped server ${version} (pid ${pid})`)
    return
  }
  sendSignal(pid, 'SIGKILL')
  if (!(await ends(server, killedMs))) throw new Error(`The server (pid ${pid}) survives SIGKILL.`)
  report(`ended server ${version} (pid ${pid}) by force: it did not stop in time`)
}

async function ends(server: Pick<ServerControl, 'isRunning'>, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs
  while (await server.isRunning()) {
    if (performance.now() > deadline) return false
    await sleep(pollMs)
  }
  return true
}

async function stopClusters(
  directory: Pick<DataDirectory, 'cluster' | 'databases'>,
  report: (line: string) => void,
): Promise<void> {
  const clusters = await findClusters(directory)
  await Promise.all(
    clusters.map(async ({ purpose, version, postmaster, directory }) => {
      if (!(await stopRunningCluster(directory, { force: true }))) return
      const of = purpose === 'state' ? "the server's own" : "users' databases"
      report(`stopped PostgreSQL ${version} of ${of} (pid ${postmaster?.pid})`)
    }),
  )
}
