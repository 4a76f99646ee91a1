import { pino } from 'pino'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { BuildPlan } from '../../../../server/src/builds/build-plan.ts'
import { createOthers } from '../../../../server/src/deployments/reconciler/others.ts'
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
function withOneMore(processes: BuildPlan['processes']) {
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
    store: { jobs: { runs: async () => true }, rows: { find: async () => row } },
    rows: {
      of: async () => known,
      all: async () => known,
      started: async () => true,
      note: async () => undefined,
      remove: async () => undefined,
      clear: async () => undefined,
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
