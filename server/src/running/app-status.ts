import type { DeploymentStatus } from '../contract/deployments.ts'
import { dateOf, type ProcessStat, readStat } from '../platform/processes.ts'
import { memoryOf } from '../runtimes/process/confinement/memory-watch.ts'
import { fromHandle, runtimeName } from '../runtimes/process/handle.ts'
import { isServed } from '../runtimes/process/site-record.ts'
import type { AppProcesses } from './app-processes.ts'
import type { StoredDeployment } from './stored-state.ts'

/** A release with its processes. Without the database, only data of the processes is present. */
export interface AppStatus {
  readonly project_id: string | null
  readonly project: string | null
  readonly app_id: string | null
  readonly name: string | null
  readonly deployment_id: string
  readonly status: DeploymentStatus | null
  /** The first process of the release; null while none runs. */
  readonly pid: number | null
  readonly since: string | null
  /** Of all processes of the release, without shared memory. */
  readonly memory_bytes: number | null
  /** True for a static site that is served: the gateway answers from its folder, without a process. */
  readonly site: boolean
}

/**
 * Matches processes with rows of deployments.
 *
 * @param stored `null` when the database could not be read
 * @param sites the ids of the releases that are served as static sites
 */
export function appStatuses(
  processes: AppProcesses,
  stored: readonly StoredDeployment[] | null,
  sites: ReadonlySet<string>,
): readonly AppStatus[] {
  // Only the process runtime: apps of other runtimes have no processes here and would seem to be down.
  const rows = (stored ?? []).filter(({ runtime }) => runtime === runtimeName)
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
  return { pid: first.pid, since: dateOf(first.startTime)?.toISOString() ?? null, memory_bytes: memoryOf(pids) }
}

/** Returns the ids of the deployments whose releases are served as static sites. */
export async function servedSites(stored: readonly StoredDeployment[]): Promise<Set<string>> {
  const served = await Promise.all(
    stored.map(async ({ id, instance }) => {
      const site = instance?.runtime === runtimeName ? fromHandle(instance).site : undefined
      return site !== undefined && (await isServed(site)) ? [id] : []
    }),
  )
  return new Set(served.flat())
}
