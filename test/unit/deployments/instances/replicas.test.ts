import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { BuildPlan } from '../../../../server/src/builds/build-plan.ts'
import { DeploymentError } from '../../../../server/src/features/deployments/failure.ts'
import {
  createReplicas,
  type ReplicasDependencies,
} from '../../../../server/src/features/deployments/reconcile-replicas.ts'
import { createReplicaControl } from '../../../../server/src/features/deployments/replicas.ts'
import type { DeploymentRow, InstanceRow } from '../../../../server/src/features/deployments/tables.ts'
import { staticServerName } from '../../../../server/src/platform/toolchain.ts'
import type { Endpoint } from '../../../../server/src/runtimes/runtime.ts'
import { deploymentRow, releaseOfRow as release } from '../../../harness/deployment-row.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

const endpoint: Endpoint = { host: '127.0.0.1', port: 10_000 }

/** A release with one further instance, of which `starts` has the times; one of `web` listens, others end at once. */
function withOneMore(processes: BuildPlan['processes'], changes: Partial<ReplicasDependencies> = {}) {
  const plan: BuildPlan = {
    kind: 'node',
    build: [],
    start: { argv: ['node', 'a.js'] },
    ...(processes && { processes }),
  }
  const row = deploymentRow({ status: 'running', build_plan: plan })
  let known: InstanceRow[] = []
  const starts: number[] = []
  const replicas = createReplicas({
    drain: async () => undefined,
    store: { jobs: { runs: async () => true }, rows: { find: async () => row } },
    rows: {
      of: async () => known,
      all: async () => known,
      started: async () => true,
      note: async () => true,
      remove: async () => undefined,
      clear: async () => undefined,
      replace: async () => true,
      async promote(_, { handle }) {
        known = []
        return { ...row, instance: handle }
      },
    },
    scales: { all: async () => new Map() },
    mostOfAll: async () => new Map(),
    replicas: {
      async start({ id }, _release, { type }, number) {
        starts.push(performance.now())
        const handle = { runtime: 'process', data: { pid: starts.length }, process: `${type}.${number}` }
        known = [{ deployment_id: id, type, number, handle, state: 'running', restarts: 0, started_at: new Date() }]
        return []
      },
      replace: async () => undefined,
      drain: async () => undefined,
      isDraining: () => false,
      keep: () => true,
      endpointsOf: async () => [endpoint],
    },
    instances: {
      observe: async () =>
        known.some(({ type }) => type === 'web')
          ? { state: 'listening', endpoints: [endpoint] }
          : { state: 'exited', code: 1, signal: null, exceeded: null },
      adopt: async () => undefined,
      isAdopted: () => false,
      stop: async () => undefined,
    },
    gateway: { current: () => ({ deploymentId: row.id, endpoints: [endpoint] }) },
    routes: { route: async () => true },
    noteRestart: () => undefined,
    logger: pino({ level: 'silent' }),
    ...changes,
  })
  const held = { signal: new AbortController().signal, holdUntil: <T>(going: Promise<T>) => going }
  const complete = async (current: DeploymentRow, isReviving = false) => {
    await replicas.complete(current, release, held, () => isReviving)
    await replicas.settle()
  }
  return { replicas, row, starts, complete }
}

it('starts the second instance again after pauses that grow, though each becomes the first and ends then', async () => {
  const { replicas, row, starts, complete } = withOneMore({ web: { instances: 2 } })
  // The first instance ends as often as another one can take its place.
  let current = row
  for (let time = 0; time < 60_000; time += 250) {
    current = (await replicas.promote(current, release)) ?? current
    await complete(current)
    vi.advanceTimersByTime(250)
  }
  const [begun = 0] = starts
  // The first start is not a restart. Two numbers take turns, and the pauses of each grow.
  expect(starts.map((at) => at - begun)).toEqual([
    0, 250, 500, 1_250, 1_500, 3_250, 3_500, 7_250, 7_500, 15_250, 15_500,
  ])
})

it('is steady while a worker that ends again and again is not started soon', async () => {
  const { replicas, row, starts, complete } = withOneMore({
    worker: { command: { argv: ['node', 'b.js'] }, instances: 1 },
  })
  for (let time = 0; time < 30_000; time += 250) {
    await complete(row)
    if (starts.length < 6) expect(replicas.isSteady(row)).toBe(false)
    vi.advanceTimersByTime(250)
  }
  expect(starts).toHaveLength(6)
  expect(replicas.isSteady(row)).toBe(true)
  vi.advanceTimersByTime(60_000)
  expect(replicas.isSteady(row)).toBe(false)
})

/** A release whose password was rotated since its instance was started. */
function withOlderVariables(replace: () => Promise<void>, changes: Partial<ReplicasDependencies> = {}) {
  const steps: string[] = []
  const step = (name: string) => async () => void steps.push(name)
  const { replicas, row, complete } = withOneMore(undefined, {
    replicas: {
      start: async () => [],
      async replace() {
        steps.push('start')
        await replace()
      },
      drain: async () => undefined,
      isDraining: () => false,
      keep: () => true,
      endpointsOf: async () => [],
    },
    instances: {
      observe: async () => ({ state: 'listening', endpoints: [endpoint] }),
      adopt: async () => undefined,
      isAdopted: () => true,
      stop: step('stop'),
    },
    drain: step('drain'),
    routes: {
      async route() {
        steps.push('route')
        return true
      },
    },
    ...changes,
  })
  row.instance = { runtime: 'process', data: {} }
  row.variable_origins = { plain: [], given: [], linked: { DATABASE_URL: 'db_1' }, rotations: 1 }
  return { replicas, row, complete, steps }
}

it('an instance with older variables ends when its successor has the address and its requests are done', async () => {
  const { replicas, row, complete, steps } = withOlderVariables(async () => undefined)
  await complete(row)
  expect(steps).toEqual(['start', 'route', 'drain', 'stop'])
  expect(replicas.isSteady(row)).toBe(false)
  expect(replicas.isSteady({ ...row, instance: { runtime: 'process', data: {}, rotations: 1 } })).toBe(true)
})

it('an instance with older variables stays while its successors fail to start, with growing pauses', async () => {
  const starts: number[] = []
  const { row, complete, steps } = withOlderVariables(async () => {
    starts.push(performance.now())
    throw new DeploymentError('run', 'app_exited', 'The app ended.')
  })
  for (let time = 0; time < 60_000; time += 250) {
    await complete(row)
    vi.advanceTimersByTime(250)
  }
  const [begun = 0] = starts
  expect(starts.map((at) => at - begun)).toEqual([0, 1_000, 3_000, 7_000, 15_000])
  expect(new Set(steps)).toEqual(new Set(['start']))
})

it('an instance with older variables is not replaced during its restart', async () => {
  const { row, complete, steps } = withOlderVariables(async () => undefined)
  await complete(row, true)
  expect(steps).toEqual([])
})

it('the start of a missing instance does not wait for a replacement', async () => {
  const replaced = Promise.withResolvers<void>()
  const { replicas, row, steps } = withOlderVariables(() => replaced.promise)
  const held = { signal: new AbortController().signal, holdUntil: <T>(going: Promise<T>) => going }
  await replicas.complete(row, release, held)
  expect(steps).toEqual(['start'])
  replaced.resolve()
  await replicas.settle()
  expect(steps).toEqual(['start', 'route', 'drain', 'stop'])
})

it('an instance with a successor ends, even when its requests cannot be awaited', async () => {
  const { row, complete, steps } = withOlderVariables(async () => undefined, {
    drain: async () => {
      throw new Error('the gateway does not answer')
    },
  })
  await complete(row)
  expect(steps).toEqual(['start', 'route', 'stop'])
})

it('an address is not routed to when its instance was replaced before the route’s turn', async () => {
  const routed: unknown[] = []
  let port = 10_000
  const { row, complete } = withOlderVariables(async () => undefined, {
    instances: {
      observe: async () => ({ state: 'listening', endpoints: [{ host: '127.0.0.1', port }] }),
      adopt: async () => undefined,
      isAdopted: () => true,
      stop: async () => undefined,
    },
    routes: {
      async route(_, { endpoints }, mayRoute) {
        port = 10_001
        const may = await mayRoute()
        if (may) routed.push(endpoints)
        return may
      },
    },
  })
  await complete(row)
  expect(routed).toEqual([[{ host: '127.0.0.1', port: 10_001 }]])
})

/** An app with one worker that has older variables. */
function withOlderWorker(
  argv: BuildPlan['start']['argv'],
  isAlive: boolean,
  changes: Partial<ReplicasDependencies['rows']> = {},
) {
  const started: string[] = []
  let starting = Promise.resolve()
  const plan: BuildPlan = {
    kind: 'node',
    build: [],
    start: { argv },
    processes: { worker: { command: { argv: ['node', 'b.js'] }, instances: 1 } },
  }
  const row = deploymentRow({
    status: 'running',
    build_plan: plan,
    instance: { runtime: 'process', data: {}, rotations: 1 },
    variable_origins: { plain: [], given: [], rotations: 1 },
  })
  const handle = { runtime: 'process', data: { pid: 1 }, process: 'worker.1' }
  const worker = { ...{ deployment_id: row.id, type: 'worker', number: 1, handle }, state: 'running' } as const
  const rows: ReplicasDependencies['rows'] = {
    of: async () => [],
    all: async () => [{ ...worker, restarts: 0, started_at: new Date() }],
    started: async () => true,
    note: async () => true,
    remove: async () => undefined,
    clear: async () => undefined,
    replace: async () => true,
    promote: async () => null,
    ...changes,
  }
  const { complete } = withOneMore(undefined, {
    rows,
    replicas: {
      async start(_row, _release, { type }) {
        started.push(`start ${type}`)
        await starting
        return []
      },
      async replace(_row, _release, { type }) {
        started.push(`replace ${type}`)
      },
      drain: async () => undefined,
      isDraining: () => false,
      keep: () => true,
      endpointsOf: async () => [],
    },
    instances: {
      observe: async () =>
        isAlive || started.includes('start worker')
          ? { state: 'starting', port: 1 }
          : { state: 'exited', code: 1, signal: null, exceeded: null },
      adopt: async () => undefined,
      isAdopted: () => true,
      stop: async () => void started.push('stop'),
    },
  })
  const hangUntil = (end: Promise<void>) => {
    starting = end
  }
  return { row, complete, started, hangUntil }
}

it('a worker of a static site gets the rotated variables', async () => {
  const { row, complete, started } = withOlderWorker([staticServerName, '.'], true)
  await complete(row)
  expect(started).toEqual(['replace worker', 'stop'])
})

it('a worker that ended is not replaced during its restart', async () => {
  const { row, complete, started, hangUntil } = withOlderWorker(['node', 'a.js'], false)
  const end = Promise.withResolvers<void>()
  hangUntil(end.promise)
  const starting = complete(row)
  await expect.poll(() => started).toEqual(['stop', 'start worker'])
  await complete(row)
  expect(started).toEqual(['stop', 'start worker'])
  end.resolve()
  await starting
})

it('a worker that ended is not restarted when it has a successor', async () => {
  const { row, complete, started } = withOlderWorker(['node', 'a.js'], false, { note: async () => false })
  await complete(row)
  expect(started).toEqual([])
})

describe('a successor with an unconfirmed transaction in the database', () => {
  const handle = { runtime: 'process', data: { pid: 2 } }
  const old = { handle: { runtime: 'process', data: { pid: 1 } } }
  const web = { type: 'web', command: { argv: ['node', 'a.js'] }, instances: 1 } as const
  /** Replaces an instance while the connection breaks, and returns the stopped instances. */
  const stoppedWhen = async (hasPlace: boolean, signal = new AbortController().signal) => {
    const stopped: unknown[] = []
    const replicas = createReplicaControl({
      rows: {
        of: async () => [],
        started: async () => true,
        remove: async () => undefined,
        async replace() {
          throw new Error('the connection broke')
        },
        note: async () => hasPlace,
      },
      instances: {
        start: async () => handle,
        stop: async (_, each) => void stopped.push(each),
        observe: async () => ({ state: 'listening', endpoints: [endpoint] }),
      },
      checkHealth: async () => ({ instance: handle, endpoints: [endpoint] }),
      draining: { has: () => false, begin: () => undefined, keep: () => true },
      settings: { startTimeoutMs: 1, stableMs: 0 },
    })
    const error = await replicas
      .replace(deploymentRow(), release, web, old, signal)
      .catch((thrown: Error) => thrown.name)
    return { stopped, error }
  }

  it('stays when the transaction was committed', async () => {
    expect(await stoppedWhen(true)).toEqual({ stopped: [], error: undefined })
  })

  it('ends when the transaction was rolled back', async () => {
    expect(await stoppedWhen(false)).toEqual({ stopped: [handle], error: 'NoLongerDesired' })
  })

  it('stays when the server stops before the outcome is known', async () => {
    expect(await stoppedWhen(false, AbortSignal.abort())).toEqual({ stopped: [], error: 'AbortError' })
  })
})
