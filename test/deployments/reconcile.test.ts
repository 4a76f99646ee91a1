import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { createReconcile, createReconcileAll } from '../../server/src/deployments/reconciler/reconcile.ts'
import { createDeploymentLocks } from '../../server/src/deployments/state/lock.ts'
import type { DeploymentRow } from '../../server/src/deployments/state/tables.ts'
import type { Upstream } from '../../server/src/gateway/client.ts'
import type { Handle, Observation } from '../../server/src/runtimes/runtime.ts'
import { deploymentRow } from '../harness/deployment-row.ts'

const instance: Handle = { runtime: 'process', data: { pid: 1 } }
const endpoints = [{ host: '127.0.0.1', port: 10_000 }] as const
const upstream: Upstream = { deploymentId: 'dep_1', endpoints }
const running = deploymentRow({ id: 'dep_1', status: 'running', retained: true, instance })
const listening: Observation = { state: 'listening', endpoints }
const exited: Observation = { state: 'exited', code: 1, signal: null, exceeded: null }
const stopping = new AbortController().signal

/** The state of the world around one running release. */
interface Situation {
  /** The row when it is read again under the lock. */
  readonly row: DeploymentRow
  readonly routed: Upstream | null
  readonly isAlive: boolean
  readonly isAdopted: boolean
  readonly observed: Observation
  /** True when the release is still the one that the app should run. */
  readonly isDesired: boolean
  readonly isOpen: boolean
}

const serving: Situation = {
  row: running,
  routed: upstream,
  isAlive: true,
  isAdopted: true,
  observed: listening,
  isDesired: true,
  isOpen: true,
}

/** Reconciles `seen` in a situation that differs from a serving release, and returns what was done. */
async function actionsIn(different: Partial<Situation>, seen = running): Promise<unknown[]> {
  const situation = { ...serving, ...different }
  const done: unknown[] = []
  const reconcile = createReconcile({
    apps: { get: async (id) => ({ id, name: 'web', number: 1, address: { port: 1 } }) },
    store: { rows: { find: async () => situation.row }, jobs: { runs: async () => situation.isDesired } },
    locks: createDeploymentLocks(),
    instances: {
      observe: async () => situation.observed,
      adopt: async () => void done.push('adopt'),
      isAdopted: () => situation.isAdopted,
    },
    liveness: { isAlive: () => situation.isAlive },
    gateway: { current: () => situation.routed },
    routes: {
      unroute: async () => {
        done.push('unroute')
        return situation.routed
      },
      route: async (_, to, mayRoute) => {
        const may = await mayRoute()
        if (may) done.push(['route', to])
        return may
      },
    },
    isOpen: () => situation.isOpen,
    releaseOf: async ({ id, app_id }) => ({
      id,
      appId: app_id,
      appNumber: 1,
      limits: { memoryBytes: 1, cpus: 1 },
      variables: {},
    }),
    revive: async () => void done.push('revive'),
  })
  await reconcile(seen, stopping)
  return done
}

describe('a running release', () => {
  it('that serves its address is left alone', async () => {
    expect(await actionsIn({})).toEqual([])
  })

  it('without a route is adopted and routed to when its instance listens', async () => {
    expect(await actionsIn({ routed: null })).toEqual(['adopt', ['route', upstream]])
  })

  it('whose route has outlived the leader that made it is adopted by the next one', async () => {
    expect(await actionsIn({ isAdopted: false })).toEqual(['adopt', ['route', upstream]])
  })

  it('loses its route and is started again when its instance has ended', async () => {
    expect(await actionsIn({ isAlive: false, observed: exited })).toEqual(['unroute', 'revive'])
  })

  it('without an instance is started again', async () => {
    const row = { ...running, instance: null }
    expect(await actionsIn({ row, routed: null }, row)).toEqual(['unroute', 'revive'])
  })

  it('is not started again when another release took over', async () => {
    expect(await actionsIn({ isAlive: false, observed: exited, isDesired: false })).toEqual(['unroute'])
  })

  it('is left alone when it was stopped meanwhile', async () => {
    const row = { ...running, status: 'stopped' as const }
    expect(await actionsIn({ row, isAlive: false, observed: exited })).toEqual([])
  })

  it('is left alone while another program holds its address', async () => {
    expect(await actionsIn({ isOpen: false, routed: null })).toEqual([])
  })
})

it('all running releases are reconciled, also when one of them fails and one takes long', async () => {
  const slow = Promise.withResolvers<void>()
  const reconciled: string[] = []
  const kept: string[] = []
  const all = createReconcileAll({
    store: { rows: { running: async () => ['slow', 'broken', 'good'].map((id) => deploymentRow({ id })) } },
    reconcile: async ({ id }) => {
      if (id === 'slow') await slow.promise
      if (id === 'broken') throw new Error('broken')
      reconciled.push(id)
    },
    liveness: { keepOnly: (ids) => void kept.push(...ids) },
    logger: pino({ level: 'silent' }),
  })
  await all.run(stopping)
  await expect.poll(() => reconciled).toEqual(['good'])
  slow.resolve()
  await all.settle()
  expect(reconciled).toEqual(['good', 'slow'])
  expect(kept).toEqual(['slow', 'broken', 'good'])
})
