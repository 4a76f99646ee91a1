import { isDeepStrictEqual } from 'node:util'
import type { Upstream } from '../../gateway/client.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Endpoint, Handle, Observation, Release } from '../../runtimes/runtime.ts'
import { DeploymentError } from './failure.ts'
import { type InstanceName, type InstanceRows, isOutdated, outdatedFirst } from './instance-rows.ts'
import type { InstanceControl } from './instances.ts'
import type { SharedLock } from './lock.ts'
import {
  type DesiredProcess,
  desiredProcesses,
  firstName,
  firstNumber,
  numbersOf,
  type Scale,
  type Scales,
  web,
  withinPlan,
} from './process-types.ts'
import { createRestarts, createSilences, type Restarts, type Silences } from './reconcile.ts'
import type { ReplicaControl } from './replicas.ts'
import { type Routes, stopGraceMs, upstreamOf } from './routes.ts'
import type { DeploymentStore } from './rows.ts'
import { NoLongerDesired } from './switch.ts'
import type { DeploymentRow, InstanceRow } from './tables.ts'

/** Replicas are all instances of running releases except the first `web` instance, of every process type. */
export interface Replicas {
  refresh(): Promise<void>
  /**
   * True when, at the last refresh, the release had exactly its desired instances, all with current variables and none
   * ended. Instances that ended so often that their restart has to wait do not count.
   */
  isSteady(row: DeploymentRow): boolean
  /** False for an instance that ended so often that its restart has to wait, and for a draining instance. */
  isExpected(row: DeploymentRow, instance: InstanceRow): boolean
  /** Adopts the `web` instances that listen, and returns their endpoints, ordered by number. */
  endpoints(row: DeploymentRow, release: Release): Promise<readonly Endpoint[]>
  /**
   * Makes a listening `web` instance the first instance of its release, in place of an instance that does not listen.
   * Returns the changed row; null when no instance listens.
   */
  promote(row: DeploymentRow, release: Release): Promise<DeploymentRow | null>
  /**
   * Starts missing instances, when that is due, ends surplus instances, and then begins to replace instances that have
   * older variables, including the first instance. It does not wait for the replacements.
   *
   * @param isReviving true while the first instance is being restarted: then it is not replaced
   */
  complete(
    row: DeploymentRow,
    release: Release,
    held: Pick<SharedLock, 'signal' | 'holdUntil'>,
    isReviving?: () => boolean,
  ): Promise<void>
  settle(): Promise<void>
}

export interface ReplicasDependencies {
  readonly store: {
    readonly jobs: Pick<DeploymentStore['jobs'], 'runs'>
    readonly rows: Pick<DeploymentStore['rows'], 'find'>
  }
  readonly rows: InstanceRows
  readonly scales: Pick<Scales, 'all'>
  readonly mostOfAll: () => Promise<ReadonlyMap<string, number>>
  readonly replicas: ReplicaControl
  readonly instances: Pick<InstanceControl, 'observe' | 'adopt' | 'isAdopted' | 'stop'>
  readonly gateway: { current(appId: string): Upstream | null }
  /** Resolves when an upstream that gets no new requests has finished its requests, or its time is over. */
  readonly drain: (upstream: Upstream, signal: AbortSignal) => Promise<void>
  readonly routes: Pick<Routes, 'route'>
  readonly noteRestart: (appId: string) => void
  readonly logger: Logger
}

interface Snapshot {
  readonly instances: ReadonlyMap<string, readonly InstanceRow[]>
  readonly scales: ReadonlyMap<string, Scale>
  readonly most: ReadonlyMap<string, number>
}

interface Work {
  readonly row: DeploymentRow
  readonly release: Release
  readonly recorded: readonly InstanceRow[]
  readonly desired: readonly DesiredProcess[]
  readonly signal: AbortSignal
  readonly isReviving: () => boolean
}

interface Memory {
  readonly restarts: Restarts
  readonly silences: Silences
  /** Instances that became the first of their release: the start of their successor is a restart. */
  readonly promoted: Set<string>
  readonly starting: Set<string>
  readonly replacements: Restarts
  readonly replacing: Map<string, Promise<void>>
}

const keyOf = ({ id }: Pick<DeploymentRow, 'id'>, { type, number }: InstanceName): string => `${id} ${type}.${number}`

const none: Scale = new Map()

export function createReplicas(dependencies: ReplicasDependencies): Replicas {
  const { rows, scales, mostOfAll, instances, replicas, gateway } = dependencies
  const memory: Memory = {
    restarts: createRestarts(),
    silences: createSilences(),
    promoted: new Set(),
    starting: new Set(),
    replacements: createRestarts(),
    replacing: new Map(),
  }
  let seen: Snapshot = { instances: new Map(), scales: new Map(), most: new Map() }

  const refresh = async (): Promise<void> => {
    const [all, asked, most] = await Promise.all([rows.all(), scales.all(), mostOfAll()])
    seen = { instances: Map.groupBy(all, ({ deployment_id }) => deployment_id), scales: asked, most }
  }
  const desiredOf = ({ build_plan, app_id, project_id }: DeploymentRow): DesiredProcess[] => {
    const asked = build_plan === null ? [] : desiredProcesses(build_plan, seen.scales.get(app_id) ?? none)
    return withinPlan(asked, seen.most.get(project_id) ?? Number.POSITIVE_INFINITY)
  }
  const read = async ({ id }: DeploymentRow): Promise<readonly InstanceRow[]> => {
    await refresh()
    return seen.instances.get(id) ?? []
  }
  const waits = (row: DeploymentRow, instance: InstanceRow): boolean =>
    memory.restarts.isLoop(keyOf(row, instance), performance.now())
  const endpoints: Replicas['endpoints'] = async (row, release) => {
    const recorded = await read(row)
    return (await listening(dependencies, row, recorded, desiredOf(row), release)).flatMap((each) => each.endpoints)
  }

  return {
    refresh,

    isSteady(row) {
      const recorded = seen.instances.get(row.id) ?? []
      const desired = desiredOf(row)
      return (
        isComplete(row, recorded, desired) &&
        recorded.every((each) => isDesired(row, each, desired) && !replicas.isDraining(each)) &&
        recorded.every((each) => waits(row, each) || (instances.isAdopted(each.handle) && !isOutdated(row, each))) &&
        outdatedFirst(row).length === 0 &&
        gateway.current(row.app_id)?.endpoints.length === (desired[0]?.instances ?? 1)
      )
    },

    isExpected: (row, instance) => !waits(row, instance) && !replicas.isDraining(instance),

    endpoints,

    async promote(row, release) {
      const [first] = await listening(dependencies, row, await read(row), desiredOf(row), release)
      if (first === undefined) return null
      const promoted = await rows.promote(row, first.instance)
      if (promoted !== null) memory.promoted.add(keyOf(row, { type: web, number: firstNumber(row.instance) }))
      if (promoted !== null && row.instance !== null) await instances.stop(release, row.instance, { graceMs: 0 })
      return promoted
    },

    async complete(row, release, { signal, holdUntil }, isReviving = () => false) {
      const work = { row, release, recorded: await read(row), desired: desiredOf(row), signal, isReviving }
      const route = createRouting(dependencies, work, () => endpoints(row, release))
      await Promise.all([endSurplus(dependencies, work, route), startMissing(dependencies, memory, work, route)])
      replaceOutdated(dependencies, memory, work, { route, holdUntil })
    },

    async settle() {
      await Promise.all(memory.replacing.values())
    },
  }
}

const isComplete = (
  { instance }: DeploymentRow,
  recorded: readonly InstanceRow[],
  desired: readonly DesiredProcess[],
): boolean =>
  desired.every(
    (process) => recorded.filter(({ type }) => type === process.type).length === numbersOf(process, instance).length,
  )

function isDesired(
  { instance: first }: Pick<DeploymentRow, 'instance'>,
  { type, number }: InstanceRow,
  desired: readonly DesiredProcess[],
): boolean {
  const process = desired.find((each) => each.type === type)
  return process !== undefined && numbersOf(process, first).includes(number)
}

async function listening(
  { instances, replicas }: Pick<ReplicasDependencies, 'instances' | 'replicas'>,
  row: DeploymentRow,
  recorded: readonly InstanceRow[],
  desired: readonly DesiredProcess[],
  release: Release,
): Promise<{ instance: InstanceRow; endpoints: readonly Endpoint[] }[]> {
  const desiredReplicas = recorded.filter((each) => each.type === web && isDesired(row, each, desired))
  const found = await Promise.all(
    desiredReplicas.map(async (instance) => {
      const endpoints = await replicas.endpointsOf(instance)
      if (endpoints.length > 0) await instances.adopt(release, instance.handle)
      return { instance, endpoints }
    }),
  )
  return found.filter(({ endpoints }) => endpoints.length > 0).sort((a, b) => a.instance.number - b.instance.number)
}

/** Returns a function that routes to all `web` instances that listen now. Its changes run one after the other. */
function createRouting(
  { store, instances, routes }: Pick<ReplicasDependencies, 'store' | 'instances' | 'routes'>,
  { row }: Work,
  endpoints: () => Promise<readonly Endpoint[]>,
): () => Promise<void> {
  let last = Promise.resolve()
  // Read again each time: the start of an instance may take long.
  const find = async (): Promise<Upstream | null> => {
    const current = await store.rows.find(row.id)
    if (current === undefined || current.instance === null) return null
    const first = await instances.observe(current.instance)
    const own = first.state === 'listening' ? first.endpoints : []
    const [one, ...more] = [...own, ...(await endpoints())]
    return one === undefined ? null : upstreamOf(row, [one, ...more])
  }
  const route = async (): Promise<void> => {
    let upstream = await find()
    while (upstream !== null) {
      const tried = upstream
      let found: Upstream | null = tried
      // An instance may be replaced while this waits for other changes of the route: its address must not get requests
      // again.
      const mayRoute = async () => {
        found = (await store.jobs.runs(row)) ? await find() : null
        return isDeepStrictEqual(found, tried)
      }
      upstream = (await routes.route(row.app_id, tried, mayRoute)) ? null : found
    }
  }
  return () => {
    last = last.catch(() => undefined).then(route)
    return last
  }
}

async function endSurplus(
  { replicas }: Pick<ReplicasDependencies, 'replicas'>,
  { row, release, recorded, desired }: Work,
  route: () => Promise<void>,
): Promise<void> {
  const surplus = recorded.filter((each) => !isDesired(row, each, desired) && !replicas.isDraining(each))
  if (surplus.length === 0) return
  await route()
  await Promise.all(surplus.map((instance) => replicas.drain(release, instance)))
}

async function startMissing(
  dependencies: ReplicasDependencies,
  memory: Memory,
  work: Work,
  route: () => Promise<void>,
): Promise<void> {
  const missing = work.desired.flatMap((process) =>
    numbersOf(process, work.row.instance).map((number) => ({ process, number })),
  )
  const startNew = async (each: (typeof missing)[number]) => {
    const key = keyOf(work.row, { type: each.process.type, number: each.number })
    if (memory.starting.has(key)) return
    memory.starting.add(key)
    await startOne(dependencies, memory, work, each, route).finally(() => memory.starting.delete(key))
  }
  await Promise.all(missing.map(startNew))
}

async function startOne(
  { replicas, instances, rows, noteRestart, logger }: ReplicasDependencies,
  { restarts, silences, promoted }: Memory,
  { row, release, recorded, signal }: Work,
  { process, number }: { readonly process: DesiredProcess; readonly number: number },
  route: () => Promise<void>,
): Promise<void> {
  const before = recorded.find((each) => each.type === process.type && each.number === number)
  const key = keyOf(row, { type: process.type, number })
  const now = performance.now()
  if (before !== undefined && replicas.isDraining(before)) {
    if (replicas.keep(before) && process.type === web) await route()
    return
  }
  if (before !== undefined && (await lives(instances, release, before, silences))) return
  if (restarts.isLoop(key, now) || !restarts.isDue(key, now)) return
  const about = { deployment: row.id, instance: `${process.type}.${number}` }
  const isAgain = before !== undefined || promoted.has(key)
  try {
    restarts.note(key, now)
    promoted.delete(key)
    if (isAgain) noteRestart(row.app_id)
    if (before !== undefined) {
      logger.info(about, 'an instance is started again')
      // From here on no successor can replace it. A successor may already have done so.
      if (!(await rows.note(row.id, before.handle, 'ended'))) return
      await instances.stop(release, before.handle, { graceMs: 0 })
    }
    await replicas.start(row, release, process, number, signal)
    if (!isAgain) restarts.forget(key)
    if (process.type === web) await route()
  } catch (error) {
    if (signal.aborted) return
    logger.warn({ err: error, ...about }, 'an instance could not be started')
    if (error instanceof DeploymentError) restarts.noteFailure(key, performance.now())
    else restarts.postpone(key, performance.now())
  }
}

/** True for an instance that has not ended. Adopts it if an earlier server has started it. */
async function lives(
  instances: ReplicasDependencies['instances'],
  release: Release,
  { type, handle }: InstanceRow,
  silences: Silences,
): Promise<boolean> {
  const { state } = await instances.observe(handle)
  if (state === 'exited') return false
  await instances.adopt(release, handle)
  return type !== web || state === 'listening' || !silences.isTooLong(handle, performance.now())
}

/**
 * Begins to replace instances that have older variables, as a new release does: each old instance serves until its
 * successor does. An instance that is being restarted gets the new variables anyway.
 */
function replaceOutdated(
  dependencies: ReplicasDependencies,
  memory: Memory,
  work: Work,
  { route, holdUntil }: { readonly route: () => Promise<void>; readonly holdUntil: SharedLock['holdUntil'] },
): void {
  const { row, recorded, desired, isReviving, signal } = work
  const replaceable = recorded.filter(
    (each) =>
      isDesired(row, each, desired) &&
      !dependencies.replicas.isDraining(each) &&
      !memory.starting.has(keyOf(row, each)),
  )
  const first = isReviving() ? [] : outdatedFirst(row)
  for (const { type, handle } of [...first, ...replaceable.filter((each) => isOutdated(row, each))]) {
    const process = desired.find((each) => each.type === type)
    const key = `${row.id} ${firstName(handle)}`
    if (process === undefined || memory.replacing.has(key) || signal.aborted) continue
    const replacing = replaceOne(dependencies, memory, work, { process, handle, key }, route)
      .catch((error: unknown) => {
        dependencies.logger.warn({ err: error, deployment: row.id }, 'a replaced instance could not be ended')
      })
      .finally(() => memory.replacing.delete(key))
    memory.replacing.set(key, holdUntil(replacing))
  }
}

async function replaceOne(
  dependencies: ReplicasDependencies,
  { replacements }: Memory,
  { row, release, signal }: Work,
  { process, handle, key }: { readonly process: DesiredProcess; readonly handle: Handle; readonly key: string },
  route: () => Promise<void>,
): Promise<void> {
  const { replicas, instances, logger } = dependencies
  const now = performance.now()
  if (replacements.isLoop(key, now) || !replacements.isDue(key, now)) return
  const seen = await instances.observe(handle)
  // The restart of an ended instance uses the new variables.
  if (seen.state === 'exited') return
  const about = { deployment: row.id, instance: firstName(handle) }
  try {
    replacements.note(key, now)
    logger.info(about, 'an instance with older variables is replaced')
    await replicas.replace(row, release, process, { handle }, signal)
    replacements.forget(key)
  } catch (error) {
    if (signal.aborted || error instanceof NoLongerDesired) return
    logger.warn({ err: error, ...about }, 'an instance with older variables could not be replaced, and keeps running')
    if (error instanceof DeploymentError) replacements.noteFailure(key, performance.now())
    else replacements.postpone(key, performance.now())
    return
  }
  try {
    if (process.type === web) await handOver(dependencies, { row, seen, signal }, route)
  } catch (error) {
    if (!signal.aborted) logger.warn({ err: error, ...about }, 'a replaced instance ends before its requests are done')
  }
  // It no longer has a row, so it ends in any case.
  await instances.stop(release, handle, { graceMs: stopGraceMs })
}

/**
 * Gives the address of a replaced instance to its successor. Resolves when the replaced instance has finished its
 * requests.
 */
async function handOver(
  { drain }: Pick<ReplicasDependencies, 'drain'>,
  { row, seen, signal }: Pick<Work, 'row' | 'signal'> & { readonly seen: Observation },
  route: () => Promise<void>,
): Promise<void> {
  await route()
  if (seen.state === 'listening') await drain({ deploymentId: row.id, endpoints: seen.endpoints }, signal)
}
