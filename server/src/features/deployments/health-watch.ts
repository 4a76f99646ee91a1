import type { Gateway } from '../../gateway/client.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Endpoint, Handle } from '../../runtimes/runtime.ts'
import { type InstanceControl, releaseRef } from './instances.ts'
import type { DeploymentLocks } from './lock.ts'
import { firstNumber, web } from './process-types.ts'
import { afterCheck, failuresAllowed, mostChecksPerSecond, nextCheckMs } from './reconcile.ts'
import type { NoteInLog } from './release-log.ts'
import { type Routes, stopGraceMs, upstreamOf } from './routes.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentRow, InstanceRow } from './tables.ts'

interface HealthWatch {
  watch(signal: AbortSignal): Promise<void>
  /** Begins the checks that are due at a time by `performance.now()`. */
  look(now: number, signal: AbortSignal): Promise<void>
  settle(): Promise<void>
}

interface HealthWatchDependencies {
  readonly store: {
    readonly rows: Pick<DeploymentStore['rows'], 'find' | 'withHealth' | 'isSwitching'>
    readonly jobs: Pick<DeploymentStore['jobs'], 'runs'>
    readonly instances: Pick<DeploymentStore['instances'], 'of' | 'all'>
  }
  readonly locks: Pick<DeploymentLocks, 'share' | 'isTaken'>
  readonly instances: Pick<InstanceControl, 'observe' | 'isAdopted' | 'stop'>
  readonly isExpected: (row: DeploymentRow, instance: InstanceRow) => boolean
  /** Resolves to `healthy`, or to the reason why an endpoint is not healthy. */
  readonly ask: (endpoint: Endpoint, path: string, signal: AbortSignal) => Promise<string>
  readonly routes: Pick<Routes, 'route'>
  readonly gateway: Pick<Gateway, 'drain' | 'current'>
  readonly note: NoteInLog
  readonly logger: Logger
}

const refreshMs = 5_000
const lookMs = 1_000
/** How long an unhealthy instance may finish its requests, if other instances take new requests. */
const drainMs = 5_000

interface Target {
  readonly row: DeploymentRow
  readonly path: string
  readonly name: string
  readonly handle: Handle
  endpoint: Endpoint | null
  failures: number
  dueAt: number
  isBusy: boolean
}

export function createHealthWatch(dependencies: HealthWatchDependencies): HealthWatch {
  const { logger } = dependencies
  let targets: ReadonlyMap<string, Target> = new Map()
  let refreshAt = 0
  const underWay = new Set<Promise<void>>()

  const look: HealthWatch['look'] = async (now, signal) => {
    if (now >= refreshAt) {
      refreshAt = now + refreshMs
      targets = await readTargets(dependencies, targets, now)
    }
    const due = [...targets.values()].filter(({ dueAt, isBusy }) => !isBusy && dueAt <= now)
    for (const target of due.sort((a, b) => a.dueAt - b.dueAt).slice(0, mostChecksPerSecond)) {
      target.isBusy = true
      const one: Promise<void> = check(dependencies, target, { now, count: targets.size, signal })
        .catch((error: unknown) => {
          if (!signal.aborted) logger.warn({ err: error, deployment: target.row.id }, 'a health check failed')
        })
        .finally(() => {
          target.isBusy = false
          underWay.delete(one)
        })
      underWay.add(one)
    }
  }

  const settle = async (): Promise<void> => {
    await Promise.all(underWay)
  }

  return {
    look,
    settle,
    async watch(signal) {
      while (!signal.aborted) {
        await look(performance.now(), signal).catch((error: unknown) => {
          logger.warn({ err: error }, 'the health of apps could not be checked')
        })
        await sleepUntilAborted(targets.size === 0 ? refreshMs : lookMs, signal)
      }
      await settle()
    },
  }
}

/** Lists the `web` instances that this leader monitors. Keeps the findings about each instance. */
async function readTargets(
  { store, instances }: HealthWatchDependencies,
  previous: ReadonlyMap<string, Target>,
  now: number,
): Promise<ReadonlyMap<string, Target>> {
  const targets = new Map<string, Target>()
  const rows = await store.rows.withHealth()
  const byRelease = Map.groupBy(rows.length === 0 ? [] : await store.instances.all(), (each) => each.deployment_id)
  for (const row of rows) {
    const path = row.build_plan?.health
    if (row.instance === null || path === undefined) continue
    const replicas = (byRelease.get(row.id) ?? []).filter(({ type, state }) => type === web && state === 'running')
    for (const { number, handle } of [{ number: firstNumber(row.instance), handle: row.instance }, ...replicas]) {
      if (!instances.isAdopted(handle)) continue
      const key = `${row.id} ${JSON.stringify(handle)}`
      const before = previous.get(key) ?? {
        endpoint: null,
        failures: 0,
        dueAt: now + nextCheckMs(0, previous.size),
        isBusy: false,
      }
      targets.set(key, Object.assign(before, { row, path, name: `${web}.${number}`, handle }))
    }
  }
  return targets
}

async function check(
  dependencies: HealthWatchDependencies,
  target: Target,
  { now, count, signal }: { readonly now: number; readonly count: number; readonly signal: AbortSignal },
): Promise<void> {
  const { locks, instances, ask } = dependencies
  const { row, handle, path } = target
  target.dueAt = now + nextCheckMs(target.failures, count)
  // It is being started, replaced or ended.
  if (locks.isTaken(row.id) || !instances.isAdopted(handle)) return
  target.endpoint ??= await endpointOf(instances, handle)
  // The reconciler handles an instance that stopped listening; the gateway answers for a static site.
  if (target.endpoint === null || 'folder' in target.endpoint) return
  const answer = await ask(target.endpoint, path, signal)
  if (signal.aborted || locks.isTaken(row.id) || !instances.isAdopted(handle)) return
  const { failures, isUnhealthy } = afterCheck(target.failures, answer === 'healthy')
  target.failures = failures
  if (failures > 0) target.endpoint = null
  target.dueAt = now + nextCheckMs(failures, count)
  if (isUnhealthy && (await end(dependencies, target, answer, signal))) target.failures = 0
}

async function endpointOf(instances: Pick<InstanceControl, 'observe'>, handle: Handle): Promise<Endpoint | null> {
  const seen = await instances.observe(handle)
  return seen.state === 'listening' ? seen.endpoints[0] : null
}

/**
 * Ends an instance as if it had crashed, so that the reconciler restarts it by its rules. Other instances of its
 * release take over its requests first. Returns false when that must wait: only one instance of a release ends at a
 * time, and none during a switch.
 */
async function end(
  { store, locks, instances, isExpected, routes, gateway, note, logger }: HealthWatchDependencies,
  { row, name, handle }: Target,
  answer: string,
  stopping: AbortSignal,
): Promise<boolean> {
  return locks.share(
    row.id,
    async ({ signal }) => {
      const current = await store.rows.find(row.id)
      if (current?.status !== 'running' || current.generation !== row.generation || signal.aborted) return false
      if (await store.rows.isSwitching(row.app_id)) return false
      const routed = gateway.current(row.app_id)
      const endpoint = await endpointOf(instances, handle)
      const rest = (routed?.endpoints ?? []).filter((each) => !isSame(each, endpoint))
      const replicas = (await store.instances.of(row.id)).filter(({ type }) => type === web)
      const planned = replicas.filter((each) => isExpected(current, each)).length
      // An instance without requests is being started, which checks its health.
      if (routed?.deploymentId !== row.id || rest.length === routed.endpoints.length) return false
      // Another instance is already down, and comes back.
      if (rest.length < planned) return false
      logger.warn({ deployment: row.id, instance: name, answer }, 'an instance is not healthy and is started again')
      await note(
        releaseRef(row),
        'runtime',
        `Fairlead starts ${name} again: it failed ${failuresAllowed} health checks in a row; ${answer}.`,
        name,
      )
      const [first, ...more] = rest
      if (first !== undefined && endpoint !== null) {
        const upstream = upstreamOf(current, [first, ...more])
        if (!(await routes.route(row.app_id, upstream, () => store.jobs.runs(row)))) return false
        await gateway.drain({ deploymentId: row.id, endpoints: [endpoint] }, { timeoutMs: drainMs, signal })
      }
      if (signal.aborted) return false
      await instances.stop(releaseRef(row), handle, { graceMs: stopGraceMs, signal })
      return true
    },
    stopping,
  )
}

const isSame = (a: Endpoint, b: Endpoint | null): boolean =>
  b !== null && !('folder' in a) && !('folder' in b) && a.host === b.host && a.port === b.port
