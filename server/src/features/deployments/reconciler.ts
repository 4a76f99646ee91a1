import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Gateway } from '../../gateway/client.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Logger } from '../../platform/logger.ts'
import { limitCodes } from '../../runtimes/limits.ts'
import type { Endpoint, Handle, Release } from '../../runtimes/runtime.ts'
import type { App } from './app-directory.ts'
import { DeploymentError, failureOf, limitMessage, seeOutput, withLastLines } from './failure.ts'
import type { HealthCheck } from './health.ts'
import { type InstanceControl, releaseRef } from './instances.ts'
import type { DeploymentLocks, SharedLock } from './lock.ts'
import type { Fail } from './outcome.ts'
import { firstName, web, withLimits } from './process-types.ts'
import { createRestarts, type Restarts } from './reconcile.ts'
import type { Replicas } from './reconcile-replicas.ts'
import type { LastLines } from './release-log.ts'
import { type Routes, stopGraceMs, upstreamOf } from './routes.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentSecrets } from './secrets.ts'
import type { Sweep } from './sweep.ts'
import type { DeploymentRow } from './tables.ts'

interface Reconciler {
  /**
   * Opens every app's address (503 until its release is confirmed), removes everything that no deployment owns, and
   * begins to adopt or start every running release until `signal` aborts.
   */
  begin(signal: AbortSignal): Promise<void>
  /** True once every app that was running when `begin` was called has been started, or its start has failed. */
  hasTriedAll(): boolean
  watch(signal: AbortSignal): Promise<void>
  lookAgain(): void
  /** Stops every app; the next start of the server starts them again. */
  stopAll(): Promise<void>
}

interface ReconcilerDependencies {
  readonly listApps: () => Promise<readonly App[]>
  readonly listening: { keepOnly(listApps: () => Promise<readonly App[]>): Promise<void>; retry(): Promise<void> }
  readonly interruptOutdated: () => Promise<void>
  readonly sweep: Sweep
  readonly reconcileAll: ReconcileAll
  /** Woken when an instance has ended or refused a connection, and when notifications may have been missed. */
  readonly waker: Waker
  readonly store: Pick<DeploymentStore, 'rows' | 'instances'>
  readonly gateway: Pick<Gateway, 'current' | 'route'>
  readonly instances: Pick<InstanceControl, 'stop' | 'halt'>
  readonly logger: Logger
}

const reconcileIntervalMs = 1_000
/** While all releases serve, they are compared at this interval, in case an event was missed. */
const steadyIntervalMs = 30_000
const openAgainMs = 5_000
const sweepIntervalMs = 60_000

export function createReconciler(dependencies: ReconcilerDependencies): Reconciler {
  const { listApps, listening, interruptOutdated, sweep, reconcileAll, waker, store, logger } = dependencies
  let mayHaveMissed = false

  const compareAll = async (): Promise<void> => {
    mayHaveMissed = false
    await interruptOutdated()
    await listening.keepOnly(listApps)
    await sweep()
  }

  return {
    async begin(stopping) {
      await compareAll()
      await reconcileAll.begin(stopping)
    },

    hasTriedAll: reconcileAll.hasTriedAll,

    lookAgain() {
      mayHaveMissed = true
      waker.wake()
    },

    async watch(stopping) {
      const now = performance.now()
      const reconciling = reconcilingChore(reconcileAll, stopping)
      const sweeping = { everyMs: sweepIntervalMs, dueAt: now + sweepIntervalMs, run: compareAll }
      const opening = { everyMs: openAgainMs, dueAt: now + openAgainMs, run: () => listening.retry() }
      const chores = [reconciling, opening, sweeping]
      while (!stopping.aborted) {
        if (mayHaveMissed) sweeping.dueAt = 0
        if (reconcileAll.mayHaveChanged()) reconciling.dueAt = 0
        for (const chore of chores) {
          if (performance.now() < chore.dueAt || stopping.aborted) continue
          chore.dueAt = performance.now() + chore.everyMs
          await chore.run().catch((error: unknown) => {
            logger.warn({ err: error }, 'the apps could not be reconciled')
          })
        }
        if (await waker.pause(reconcileIntervalMs, stopping)) reconciling.dueAt = 0
      }
      await reconcileAll.settle()
    },

    async stopAll() {
      const rows = await store.rows.running()
      await Promise.all(
        rows.map((row) =>
          stop(dependencies, row).catch((error: unknown) => {
            logger.error({ err: error, deployment: row.id }, 'an app could not be stopped')
          }),
        ),
      )
    },
  }
}

/** Reconciles each second while a release does not serve, and at once when its `dueAt` is reset. */
function reconcilingChore(reconcileAll: ReconcileAll, stopping: AbortSignal) {
  const chore = {
    everyMs: reconcileIntervalMs,
    dueAt: 0,
    async run() {
      const isSteady = await reconcileAll.run(stopping)
      if (isSteady) chore.dueAt = performance.now() + steadyIntervalMs
    },
  }
  return chore
}

async function stop({ gateway, instances, store }: ReconcilerDependencies, row: DeploymentRow): Promise<void> {
  // The address of an app is closed when another program holds it.
  if (gateway.current(row.app_id) !== null) await gateway.route(row.app_id, null)
  if ((await store.instances.of(row.id)).length > 0) await instances.halt(releaseRef(row), { graceMs: stopGraceMs })
  else if (row.instance !== null) await instances.stop(releaseRef(row), row.instance, { graceMs: stopGraceMs })
}

/**
 * Compares one running release with the state of its runtime and the gateway: adopts its instance, or starts it again
 * when it has ended. Returns `null` when the release already serves and no work on it is under way.
 */
export type Reconcile = (row: DeploymentRow, stopping: AbortSignal) => Promise<void> | null

const pollMs = 50

interface Refusals {
  /** The deployments whose instances have refused a connection and were not seen to listen since. */
  readonly ids: Set<string>
  /** How long a live instance may take to listen again before it is restarted. */
  readonly recoverMs: number
}

export interface ReconcileDependencies {
  readonly refusals: Refusals
  readonly store: {
    readonly rows: Pick<DeploymentStore['rows'], 'find'>
    readonly jobs: Pick<DeploymentStore['jobs'], 'runs'>
  }
  readonly locks: Pick<DeploymentLocks, 'share' | 'isTaken' | 'isHeld'>
  readonly instances: Pick<InstanceControl, 'observe' | 'adopt' | 'isAdopted'>
  readonly gateway: Pick<Gateway, 'current' | 'probe'>
  readonly routes: Pick<Routes, 'route' | 'unroute'> & {
    /** False while another program holds the app's address. */
    isOpen(appId: string): boolean
  }
  readonly releaseOf: (row: DeploymentRow) => Promise<Release>
  readonly revive: Revive
  readonly replicas: Omit<Replicas, 'refresh' | 'isExpected' | 'settle'>
}

export function createReconcile(dependencies: ReconcileDependencies): Reconcile {
  const { store, locks, routes } = dependencies
  const looking = new Set<string>()
  const reviving = new Set<string>()

  const reconcile = async (seen: DeploymentRow, stopping: AbortSignal): Promise<void> => {
    // Another program holds the address: routing is impossible, and another chore retries to open the address.
    if (!routes.isOpen(seen.app_id) || locks.isTaken(seen.id) || looking.has(seen.id)) return
    looking.add(seen.id)
    const starts = await locks
      .share(
        seen.id,
        async (held) => {
          // A request may have changed it since.
          const row = await store.rows.find(seen.id)
          if (row?.status !== 'running' || held.signal.aborted) return []
          return reconcileRow(dependencies, reviving, row, held)
        },
        stopping,
      )
      .finally(() => looking.delete(seen.id))
    await Promise.all(starts.map((start) => start()))
  }
  return (seen, stopping) => (!locks.isHeld(seen.id) && serves(dependencies, seen) ? null : reconcile(seen, stopping))
}

/**
 * Keeps the first instance of a release serving, and then its replicas. Returns functions that wait for the started
 * instances, which share the lock: an instance that hangs does not delay the start of another instance.
 */
async function reconcileRow(
  dependencies: ReconcileDependencies,
  reviving: Set<string>,
  row: DeploymentRow,
  held: SharedLock,
): Promise<(() => Promise<void>)[]> {
  const { store, routes, releaseOf, revive, replicas } = dependencies
  const { signal, holdUntil } = held
  const release = await releaseOf(row)
  const complete = (serving: DeploymentRow) => {
    const completing = holdUntil(replicas.complete(serving, release, held, () => reviving.has(row.id)))
    return () => completing
  }
  const isKnown = () => hasInstance(dependencies, row)
  if (reviving.has(row.id)) return [complete(row)]
  if (await adopt(dependencies, row, signal)) return [complete(row)]
  // Another instance has replaced it: the next round checks the release again.
  if (!(await isKnown())) return []
  const hasReplica = (await replicas.endpoints(row, release)).length > 0
  if (!hasReplica) await routes.unroute(row, isKnown)
  if (dependencies.refusals.ids.delete(row.id) && (await listensAgain(dependencies, row, signal))) {
    if (await adopt(dependencies, row, signal)) return [complete(row)]
  }
  // Another release may have replaced this release, which then only finishes its requests.
  if (!(await store.jobs.runs(row))) return []
  const promoted = hasReplica ? await replicas.promote(row, release) : null
  if (promoted !== null) {
    await adopt(dependencies, promoted, signal)
    return [complete(promoted)]
  }
  if (hasReplica) await routes.unroute(row, isKnown)
  if (!(await isKnown())) return []
  reviving.add(row.id)
  const endpoints = () => replicas.endpoints(row, release)
  const started = holdUntil(revive(row, release, endpoints, signal).finally(() => reviving.delete(row.id)))
  return [() => started, complete(row)]
}

type ServesDependencies = Pick<ReconcileDependencies, 'gateway' | 'instances' | 'refusals' | 'replicas'>

/**
 * True when the release has the app's address, and this leader monitors its instance, which is alive. The gateway may
 * already send requests to it: routes outlive the leader that made them. Health checks of the start are not repeated.
 * After a refused connection, the owner of the listening socket must be looked up again.
 */
function serves({ gateway, instances, refusals, replicas }: ServesDependencies, row: DeploymentRow): boolean {
  const { id, app_id, instance } = row
  if (instance === null || refusals.ids.has(id)) return false
  return gateway.current(app_id)?.deploymentId === id && instances.isAdopted(instance) && replicas.isSteady(row)
}

/** Routes to the row's instance, if the row still names it and the instance can answer. */
async function adopt(dependencies: ReconcileDependencies, row: DeploymentRow, signal: AbortSignal): Promise<boolean> {
  const { instances, gateway, routes, store, releaseOf, replicas } = dependencies
  if (row.instance === null) return false
  if (serves(dependencies, row)) return true
  const seen = await instances.observe(row.instance)
  if (seen.state !== 'listening') return false
  const hasRefused = dependencies.refusals.ids.delete(row.id)
  const isKnown = instances.isAdopted(row.instance) && !hasRefused
  const release = await releaseOf(row)
  await instances.adopt(release, row.instance)
  const [endpoint] = seen.endpoints
  if ('folder' in endpoint && (await gateway.probe(endpoint, '/')) >= 500) return false
  const more = await replicas.endpoints(row, release)
  const upstream = upstreamOf(row, [...seen.endpoints, ...more])
  // Replicas may still be starting.
  if (isKnown && isDeepStrictEqual(gateway.current(row.app_id), upstream)) return true
  let haveChanged = false
  // An instance that was replaced since is about to end, and must not get requests again.
  const mayRoute = async () => {
    if (!(await store.jobs.runs(row)) || !(await hasInstance(dependencies, row))) return false
    haveChanged = !isDeepStrictEqual(await replicas.endpoints(row, release), more)
    return !haveChanged
  }
  const isRouted = await routes.route(row.app_id, upstream, mayRoute)
  return haveChanged ? adopt(dependencies, row, signal) : isRouted
}

async function hasInstance(
  { store }: Pick<ReconcileDependencies, 'store'>,
  { id, instance }: DeploymentRow,
): Promise<boolean> {
  return isDeepStrictEqual((await store.rows.find(id))?.instance, instance)
}

/** Waits until the instance listens; false when it has ended or takes too long. */
async function listensAgain(
  { instances, refusals }: ReconcileDependencies,
  { instance }: DeploymentRow,
  signal: AbortSignal,
): Promise<boolean> {
  if (instance === null) return false
  const end = performance.now() + refusals.recoverMs
  while (!signal.aborted) {
    const { state } = await instances.observe(instance)
    if (state === 'listening' || state === 'exited') return state === 'listening'
    if (performance.now() > end) return false
    await sleep(pollMs)
  }
  return false
}

interface ReconcileAll {
  /**
   * Reconciles all running releases in the background, so that a slow release does not delay other releases. Resolves
   * to true when all serve: then only an event, or the end of work on a deployment, can change that.
   */
  run(stopping: AbortSignal): Promise<boolean>
  /** True when work on a deployment has ended since the last run began. */
  mayHaveChanged(): boolean
  settle(): Promise<void>
  begin(stopping: AbortSignal): Promise<void>
  hasTriedAll(): boolean
}

export function createReconcileAll(dependencies: {
  readonly store: { readonly rows: Pick<DeploymentStore['rows'], 'running'> }
  readonly replicas: Pick<Replicas, 'refresh' | 'settle'>
  readonly locks: Pick<DeploymentLocks, 'ended'>
  readonly reconcile: Reconcile
  readonly logger: Logger
}): ReconcileAll {
  const { store, replicas, locks, reconcile, logger } = dependencies
  const underWay = new Set<Promise<void>>()
  let triedAll = false
  let seenEnded = 0
  const all: ReconcileAll = {
    mayHaveChanged: () => locks.ended() !== seenEnded,

    async run(stopping) {
      // Read before the rows, which do not show work that ends afterwards.
      seenEnded = locks.ended()
      let isSteady = true
      await replicas.refresh()
      for (const row of await store.rows.running()) {
        const work = reconcile(row, stopping)
        if (work === null) continue
        isSteady = false
        const one: Promise<void> = work
          .catch((error: unknown) => {
            logger.error({ err: error, deployment: row.id }, 'a release could not be reconciled')
          })
          .finally(() => underWay.delete(one))
        underWay.add(one)
      }
      return isSteady
    },
    async settle() {
      await Promise.all(underWay)
      await replicas.settle()
    },
    async begin(stopping) {
      await all.run(stopping)
      // Each has a deadline, and its failure is logged above. Instances that are being replaced serve.
      void Promise.all(underWay).then(() => {
        triedAll = true
      })
    },
    hasTriedAll: () => triedAll,
  }
  return all
}

/**
 * Restarts a running release whose instance has ended, when a restart is due; a crash loop makes the release `failed`.
 *
 * @param replicas returns the endpoints of the release's other instances of `web`
 */
type Revive = (
  row: DeploymentRow,
  release: Release,
  replicas: () => Promise<readonly Endpoint[]>,
  signal: AbortSignal,
) => Promise<void>

interface ReviveDependencies {
  readonly store: { readonly jobs: Pick<DeploymentStore['jobs'], 'runs' | 'setInstance'> }
  readonly instances: Pick<InstanceControl, 'stop' | 'start' | 'halt' | 'observe'>
  readonly routes: Pick<Routes, 'route'>
  readonly checkHealth: HealthCheck
  readonly lastLines: LastLines
  readonly fail: Fail
  readonly secrets: Pick<DeploymentSecrets, 'valuesOf'>
  readonly settings: { readonly startTimeoutMs: number; readonly stableMs: number }
  readonly noteRestart: (appId: string) => void
  readonly logger: Logger
}

const crashLoop = 'crash_loop'

export function createRevive(dependencies: ReviveDependencies): Revive {
  const restarts = createRestarts()
  return async (row, release, replicas, signal) => {
    if (restarts.isLoop(row.id, performance.now())) {
      await giveUp(dependencies, restarts, row, await crashed(dependencies, row, release))
    } else if (restarts.isDue(row.id, performance.now())) {
      await startAgain(dependencies, restarts, row, release, { replicas, signal })
    }
  }
}

async function startAgain(
  dependencies: ReviveDependencies,
  restarts: Restarts,
  row: DeploymentRow,
  release: Release,
  { replicas, signal }: { readonly replicas: Parameters<Revive>[2]; readonly signal: AbortSignal },
): Promise<void> {
  const { store, instances, routes, checkHealth, settings, noteRestart, logger } = dependencies
  logger.info({ deployment: row.id }, 'starting the release again')
  restarts.note(row.id, performance.now())
  noteRestart(row.app_id)
  let started: Handle | undefined
  let first = row.instance
  // Instances of other process types continue.
  const end = async () => started && instances.stop(release, started, { graceMs: 0 })
  try {
    if (row.build_plan === null) throw new DeploymentError('run', 'server_error', 'Its plan is lost. Deploy again.')
    if (row.instance !== null) await instances.stop(release, row.instance, { graceMs: stopGraceMs })
    signal.throwIfAborted()
    const limited = withLimits(release, row.build_plan.processes?.[web] ?? {})
    started = await instances.start(limited, row.runtime, row.build_plan.start, {
      // A replaced instance that finishes its requests may still use the previous name.
      beside: true,
      process: firstName(row.instance),
    })
    // From here on a server that stops can find the instance through the row.
    if (!(await store.jobs.setInstance(row, started))) return await end()
    first = started
    const { instance, endpoints } = await checkHealth(
      release,
      started,
      { ...settings, path: row.build_plan.health },
      signal,
    )
    const current = { ...row, instance: first }
    if (instance !== started && !(await store.jobs.setInstance(current, instance))) return await end()
    first = instance
    const more = await replicas()
    // An instance that was replaced since is about to end. The next check of the release routes to the new instance.
    const mayRoute = async () => (await store.jobs.runs(row)) && isDeepStrictEqual(await replicas(), more)
    await routes.route(row.app_id, upstreamOf(row, [...endpoints, ...more]), mayRoute)
  } catch (error) {
    if (signal.aborted) return
    logger.warn({ err: error, deployment: row.id }, 'the release could not be started again')
    // Only errors of the app make the app fail; failures of the machine are retried.
    const isApps = error instanceof DeploymentError
    if (!isApps) restarts.postpone(row.id, performance.now())
    await end()
    if (!isApps) return
    restarts.noteFailure(row.id, performance.now())
    // Another instance may have begun to serve.
    const isLost = restarts.isLoop(row.id, performance.now()) && (await replicas()).length === 0
    if (isLost) await giveUp(dependencies, restarts, { ...row, instance: first }, error)
  }
}

async function crashed(
  { instances, lastLines }: ReviveDependencies,
  row: DeploymentRow,
  release: Release,
): Promise<DeploymentError> {
  const lines = await lastLines(release, 'runtime', row.instance ?? {})
  const seen = row.instance === null ? null : await instances.observe(row.instance)
  const exceeded = seen?.state === 'exited' ? seen.exceeded : null
  const message = exceeded === null ? seeOutput(lines) : limitMessage(exceeded, 'app')
  return new DeploymentError('run', exceeded?.code ?? crashLoop, withLastLines(message, lines))
}

async function giveUp(
  { store, instances, fail, secrets, logger }: ReviveDependencies,
  restarts: Restarts,
  row: DeploymentRow,
  error: unknown,
): Promise<void> {
  logger.error({ err: error, deployment: row.id }, 'the release cannot be kept running')
  const { code, message } = failureOf(error, secrets.valuesOf(row))
  const failure = {
    stage: 'run',
    // An exceeded limit is the reason; the message has every other reason.
    code: limitCodes.find((limit) => limit === code) ?? crashLoop,
    message: `The app ended again and again after it was started. ${message}`,
  } as const
  await fail(row, failure, row)
  restarts.forget(row.id)
  // A healthy instance may have replaced the ended instance: then the release continues.
  if (await store.jobs.runs(row)) return
  // A failed release ends with all its process types. An instance that is still starting finds that it may no longer
  // run, and ends.
  await instances.halt(releaseRef(row))
}

interface Waker {
  /** Ends the pause that is under way, or the next one. */
  wake(): void
  /** Resolves after `ms` milliseconds, at `wake`, or when `signal` aborts. Returns true when `wake` ended the pause. */
  pause(ms: number, signal: AbortSignal): Promise<boolean>
}

export function createWaker(): Waker {
  let woken = new AbortController()
  return {
    wake: () => woken.abort(),
    async pause(ms, signal) {
      await sleepUntilAborted(ms, AbortSignal.any([signal, woken.signal]))
      if (!woken.signal.aborted) return false
      woken = new AbortController()
      return true
    },
  }
}
