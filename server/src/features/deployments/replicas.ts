import { setTimeout as sleep } from 'node:timers/promises'
import type { BuildPlan } from '../../builds/build-plan.ts'
import type { Upstream } from '../../gateway/client.ts'
import { onceDatabaseIsBack } from '../../platform/leadership/leadership.ts'
import type { Endpoint, Handle, Release } from '../../runtimes/runtime.ts'
import { DeploymentError } from './failure.ts'
import type { HealthCheck } from './health.ts'
import type { InstanceRows } from './instance-rows.ts'
import type { InstanceControl } from './instances.ts'
import { type DesiredProcess, firstName, instancesOf, numbersOf, web, withLimits } from './process-types.ts'
import { stopGraceMs } from './routes.ts'
import { NoLongerDesired } from './switch.ts'
import type { DeploymentRow, InstanceRow } from './tables.ts'

/** Replicas are all instances of a release except the first `web` instance. `replace` replaces any instance. */
export interface ReplicaControl {
  /**
   * Starts an instance in place of an earlier instance with that number, and resolves with its endpoints when it is
   * healthy: a `web` instance answers; an instance of another type has no endpoint and stays up. Rejects like a health
   * check, and with `NoLongerDesired` when the release may no longer run; then no part of it runs.
   */
  start(
    row: DeploymentRow,
    release: Release,
    process: DesiredProcess,
    number: number,
    signal: AbortSignal,
  ): Promise<readonly Endpoint[]>
  /**
   * Starts an instance beside another instance with its name, which may be the first of the release, and replaces that
   * instance's row as soon as the new instance is healthy. The caller then ends the old instance. Rejects like `start`;
   * then no new instance runs.
   */
  replace(
    row: DeploymentRow,
    release: Release,
    process: DesiredProcess,
    old: Pick<InstanceRow, 'handle'>,
    signal: AbortSignal,
  ): Promise<void>
  /**
   * Lets an instance that has lost the address finish its requests, then ends it and removes its row, in the
   * background. Does nothing for an instance that is already draining.
   */
  drain(release: Release, instance: InstanceRow): Promise<void>
  isDraining(instance: Pick<InstanceRow, 'handle'>): boolean
  /** Keeps a draining instance; false when it is already ending. */
  keep(instance: Pick<InstanceRow, 'handle'>): boolean
  /** The endpoints of a listening instance; empty otherwise, and for a draining instance. */
  endpointsOf(instance: Pick<InstanceRow, 'handle'>): Promise<readonly Endpoint[]>
}

interface ReplicaControlDependencies {
  readonly rows: Pick<InstanceRows, 'of' | 'started' | 'note' | 'remove' | 'replace'>
  readonly instances: Pick<InstanceControl, 'start' | 'stop' | 'observe'>
  readonly checkHealth: HealthCheck
  readonly draining: Draining
  readonly settings: { readonly startTimeoutMs: number; readonly stableMs: number }
}

const pollMs = 50

export function createReplicaControl(dependencies: ReplicaControlDependencies): ReplicaControl {
  const { rows, instances, draining } = dependencies
  const listening = async ({ handle }: Pick<InstanceRow, 'handle'>): Promise<readonly Endpoint[]> => {
    const seen = await instances.observe(handle)
    return seen.state === 'listening' ? seen.endpoints : []
  }
  const end = async (release: Release, instance: InstanceRow): Promise<void> => {
    await instances.stop(release, instance.handle, { graceMs: stopGraceMs })
    await rows.remove(instance.deployment_id, instance)
  }
  const begin = (row: DeploymentRow, release: Release, process: DesiredProcess, name: string): Promise<Handle> => {
    const limited = withLimits(release, process)
    const own = process.type === web ? limited : { ...limited, internalName: null }
    return instances.start(own, row.runtime, process.command, { beside: true, process: name })
  }
  return {
    async start(row, release, process, number, signal) {
      const name = { type: process.type, number }
      const handle = await begin(row, release, process, `${process.type}.${number}`)
      try {
        // From here on a server that stops can find the instance through its row.
        if (!(await rows.started(row, name, handle))) throw new NoLongerDesired()
        const { instance, endpoints } = await untilHealthy(dependencies, { row, release, process, handle }, signal)
        if (!(await rows.note(row.id, handle, 'running', instance))) throw new NoLongerDesired()
        return endpoints
      } catch (error) {
        await instances.stop(release, handle, { graceMs: 0 })
        if (!signal.aborted) await rows.note(row.id, handle, 'ended')
        throw error
      }
    },

    async replace(row, release, process, old, signal) {
      const handle = await begin(row, release, process, firstName(old.handle))
      const end = () => instances.stop(release, handle, { graceMs: 0 })
      const healthy = untilHealthy(dependencies, { row, release, process, handle }, signal)
      const { instance } = await healthy.catch(async (error: unknown) => {
        await end()
        throw error
      })
      // While it is unknown which of the two has the row, both continue; the sweep ends the other instance.
      if (await takesPlace(rows, row, { old: old.handle, instance }, signal)) return
      await end()
      throw new NoLongerDesired()
    },

    async drain(release, instance) {
      const [first, ...more] = instance.type === web ? await listening(instance) : []
      const upstream = first === undefined ? null : { deploymentId: release.id, endpoints: [first, ...more] as const }
      draining.begin(instance.handle, upstream, () => end(release, instance))
    },

    isDraining: ({ handle }) => draining.has(handle),
    keep: ({ handle }) => draining.keep(handle),

    endpointsOf: async (instance) => (draining.has(instance.handle) ? [] : listening(instance)),
  }
}

/** Gives an instance the row of another instance; false when that instance no longer has it. */
async function takesPlace(
  rows: Pick<InstanceRows, 'note' | 'replace'>,
  row: DeploymentRow,
  { old, instance }: { readonly old: Handle; readonly instance: Handle },
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return await rows.replace(row, old, instance)
  } catch {
    // The connection may have broken after the commit and before its confirmation.
    return onceDatabaseIsBack(() => rows.note(row.id, instance, 'running'), signal)
  }
}

async function untilHealthy(
  { instances, checkHealth, settings }: ReplicaControlDependencies,
  started: {
    readonly row: DeploymentRow
    readonly release: Release
    readonly process: DesiredProcess
    readonly handle: Handle
  },
  signal: AbortSignal,
): Promise<{ readonly instance: Handle; readonly endpoints: readonly Endpoint[] }> {
  const { row, release, process, handle } = started
  if (process.type === web) return checkHealth(release, handle, { ...settings, path: row.build_plan?.health }, signal)
  await staysUp(instances, handle, settings.stableMs, signal)
  return { instance: handle, endpoints: [] }
}

async function staysUp(
  instances: Pick<InstanceControl, 'observe'>,
  handle: Handle,
  stableMs: number,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + stableMs
  while (performance.now() < end) {
    await sleep(Math.min(pollMs, stableMs), undefined, { signal })
    const seen = await instances.observe(handle)
    if (seen.state !== 'exited') continue
    const how = seen.signal === null ? `with code ${seen.code}` : `by ${seen.signal}`
    throw new DeploymentError('run', 'app_exited', `${firstName(handle)} ended ${how} right after its start.`)
  }
}

export type StartReplicas = (
  row: DeploymentRow,
  release: Release,
  plan: BuildPlan,
  first: Handle,
  signal: AbortSignal,
) => Promise<readonly Endpoint[]>

/**
 * Makes the step that starts the further `web` instances, all at once. Keeps listening instances of a release that was
 * just replaced. Rejects with a `DeploymentError` when an instance does not become healthy, and when the plan of the
 * project does not allow so many.
 */
export function createStartReplicas(dependencies: {
  readonly replicas: ReplicaControl
  readonly rowsOf: (deploymentId: string) => Promise<InstanceRow[]>
  readonly processesOf: (row: DeploymentRow, plan: BuildPlan) => Promise<readonly DesiredProcess[]>
  readonly mostInstances: (projectId: string) => Promise<number>
}): StartReplicas {
  const { replicas, rowsOf, processesOf, mostInstances } = dependencies
  return async (row, release, plan, first, signal) => {
    const processes = await processesOf(row, plan)
    const [process] = processes
    const together = instancesOf(processes)
    if (process === undefined || together === 1) return []
    const most = await mostInstances(row.project_id)
    if (together > most) throw new DeploymentError('start', 'too_many_instances', tooMany(together, most))
    const recorded = new Map(
      (await rowsOf(row.id)).filter(({ type }) => type === web).map((each) => [each.number, each]),
    )
    const planned = { ...row, build_plan: plan }
    const startOne = async (number: number): Promise<readonly Endpoint[]> => {
      const before = recorded.get(number)
      const kept = before === undefined ? [] : await replicas.endpointsOf(before)
      return kept.length > 0 ? kept : replicas.start(planned, release, process, number, signal)
    }
    const settled = await Promise.allSettled(numbersOf(process, first).map(startOne))
    const failed = settled.find((each) => each.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    return settled.flatMap((each) => (each.status === 'fulfilled' ? [...each.value] : []))
  }
}

const tooMany = (together: number, most: number): string =>
  `The app has ${together} instances over all its process types, and the plan of its project allows ${most}. Ask for fewer, ` +
  'in fairlead.json or by fairlead scale, or choose another plan.'

/**
 * Surplus instances: each takes no new requests, finishes its requests, and ends. This runs in the background, because
 * no other part of the release has to wait for it.
 */
interface Draining {
  has(instance: Handle): boolean
  /**
   * Begins to drain an instance; does nothing when it is already draining.
   *
   * @param upstream its endpoints, which get no new requests any more; null when it has none
   */
  begin(instance: Handle, upstream: Upstream | null, end: () => Promise<void>): void
  /** Keeps an instance that is desired again; false when it is already ending. */
  keep(instance: Handle): boolean
}

interface DrainingInstance {
  readonly kept: AbortController
  isEnding: boolean
}

/**
 * @param drain resolves when the upstream has finished its requests or its time is over, and when the signal aborts
 * @param inBackground tracks the background work
 */
export function createDraining(
  drain: (upstream: Upstream, signal: AbortSignal) => Promise<void>,
  inBackground: (work: Promise<void>) => void,
): Draining {
  const drainingInstances = new Map<string, DrainingInstance>()
  const keyOf = (instance: Handle): string => JSON.stringify(instance)

  const drainAndEnd = async (
    draining: DrainingInstance,
    upstream: Upstream | null,
    end: () => Promise<void>,
  ): Promise<void> => {
    if (upstream !== null) await drain(upstream, draining.kept.signal)
    if (draining.kept.signal.aborted) return
    draining.isEnding = true
    await end()
  }

  return {
    has: (instance) => drainingInstances.has(keyOf(instance)),

    begin(instance, upstream, end) {
      const key = keyOf(instance)
      if (drainingInstances.has(key)) return
      const draining: DrainingInstance = { kept: new AbortController(), isEnding: false }
      drainingInstances.set(key, draining)
      const over = () => {
        if (drainingInstances.get(key) === draining) drainingInstances.delete(key)
      }
      inBackground(drainAndEnd(draining, upstream, end).finally(over))
    },

    keep(instance) {
      const key = keyOf(instance)
      const draining = drainingInstances.get(key)
      if (draining?.isEnding === true) return false
      draining?.kept.abort()
      drainingInstances.delete(key)
      return true
    },
  }
}
