import { pino } from 'pino'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { BuildPlan } from '../../../../server/src/builds/build-plan.ts'
import { createOthers, type OthersDependencies } from '../../../../server/src/deployments/reconciler/others.ts'
import { DeploymentError } from '../../../../server/src/deployments/state/failure.ts'
import type { DeploymentRow, InstanceRow } from '../../../../server/src/deployments/state/tables.ts'
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
function withOneMore(processes: BuildPlan['processes'], changes: Partial<OthersDependencies> = {}) {
  const plan: BuildPlan = {
    kind: 'node',
    build: [],
    start: { argv: ['node', 'a.js'] },
    ...(processes && { processes }),
  }
  const row = deploymentRow({ status: 'running', build_plan: plan })
  let known: InstanceRow[] = []
  const starts: number[] = []
  const others = createOthers({
    drain: async () => undefined,
    store: { jobs: { runs: async () => true }, rows: { find: async () => row } },
    rows: {
      of: async () => known,
      all: async () => known,
      started: async () => true,
      note: async () => undefined,
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
    others: {
      async start({ id }, _release, { type }, number) {
        starts.push(performance.now())
        const handle = { runtime: 'process', data: { pid: starts.length } }
        known = [{ deployment_id: id, type, number, handle, state: 'running', restarts: 0, started_at: new Date() }]
        return []
      },
      replace: async () => undefined,
      leave: async () => undefined,
      isLeaving: () => false,
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
  const complete = (current: DeploymentRow) => others.complete(current, release, new AbortController().signal)
  return { others, row, starts, complete }
}

it('starts the second instance again after pauses that grow, though each becomes the first and ends then', async () => {
  const { others, row, starts, complete } = withOneMore({ web: { instances: 2 } })
  // The first instance ends as often as another one can take its place.
  for (let time = 0; time < 60_000; time += 250) {
    await complete((await others.promote(row, release)) ?? row)
    vi.advanceTimersByTime(250)
  }
  const [begun = 0] = starts
  // The first start is none again.
  expect(starts.map((at) => at - begun)).toEqual([0, 250, 1_250, 3_250, 7_250, 15_250])
})

it('is steady while a worker that ends again and again is not started soon', async () => {
  const { others, row, starts, complete } = withOneMore({
    worker: { command: { argv: ['node', 'b.js'] }, instances: 1 },
  })
  for (let time = 0; time < 30_000; time += 250) {
    await complete(row)
    if (starts.length < 6) expect(others.isSteady(row)).toBe(false)
    vi.advanceTimersByTime(250)
  }
  expect(starts).toHaveLength(6)
  expect(others.isSteady(row)).toBe(true)
  vi.advanceTimersByTime(60_000)
  expect(others.isSteady(row)).toBe(false)
})

/** A release whose password was rotated since its instance was started. */
function withOlderVariables(replace: () => Promise<void>) {
  const steps: string[] = []
  const step = (name: string) => async () => void steps.push(name)
  const { others, row, complete } = withOneMore(undefined, {
    others: {
      start: async () => [],
      async replace() {
        steps.push('start')
        await replace()
      },
      leave: async () => undefined,
      isLeaving: () => false,
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
  })
  row.instance = { runtime: 'process', data: {} }
  row.variable_origins = { plain: [], given: [], linked: { DATABASE_URL: 'db_1' }, rotations: 1 }
  return { others, row, complete, steps }
}

it('an instance with older variables ends when its successor has the address and its requests are done', async () => {
  const { others, row, complete, steps } = withOlderVariables(async () => undefined)
  await complete(row)
  expect(steps).toEqual(['start', 'route', 'drain', 'stop'])
  expect(others.isSteady(row)).toBe(false)
  expect(others.isSteady({ ...row, instance: { runtime: 'process', data: {}, rotations: 1 } })).toBe(true)
})

it('an instance with older variables goes on while its successors do not come up, which start after pauses that grow', async () => {
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
