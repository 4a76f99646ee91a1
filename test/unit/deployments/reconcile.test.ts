import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { createDeploymentLocks } from '../../../server/src/features/deployments/lock.ts'
import {
  createReconcile,
  createReconcileAll,
  type Reconcile,
  type ReconcileDependencies,
} from '../../../server/src/features/deployments/reconciler.ts'
import type { DeploymentRow } from '../../../server/src/features/deployments/tables.ts'
import type { Upstream } from '../../../server/src/gateway/client.ts'
import type { Handle, Observation } from '../../../server/src/runtimes/runtime.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'

const instance: Handle = { runtime: 'process', data: { pid: 1 } }
const endpoints = [{ host: '127.0.0.1', port: 10_000 }] as const
const upstream: Upstream = { deploymentId: 'dep_1', endpoints }
const running = deploymentRow({ id: 'dep_1', status: 'running', retained: true, instance })
const listening: Observation = { state: 'listening', endpoints }
const exited: Observation = { state: 'exited', code: 1, signal: null, exceeded: null }
const stopping = new AbortController().signal

/** The state around one running release. */
interface Situation {
  /** The row when it is read again under the lock. */
  readonly row: DeploymentRow
  readonly routed: Upstream | null
  /** True when this leader watches the instance, and the instance has not ended. */
  readonly isAdopted: boolean
  readonly observed: Observation
  /** True when the app should still run the release. */
  readonly isDesired: boolean
  readonly isOpen: boolean
  /** The answer of the gateway for a site. */
  readonly status: number
  /** True when the instance has refused a connection of the gateway. */
  readonly hasRefused: boolean
  /** False while one of its instances is missing. */
  readonly isSteady: boolean
}

const serving: Situation = {
  row: running,
  routed: upstream,
  isAdopted: true,
  observed: listening,
  isDesired: true,
  isOpen: true,
  status: 200,
  hasRefused: false,
  isSteady: true,
}

const replicasOf = (isSteady: boolean): ReconcileDependencies['replicas'] => ({
  isSteady: () => isSteady,
  endpoints: async () => [],
  promote: async () => null,
  complete: async () => undefined,
})

/** Returns a release's environment in a situation that differs from a serving release; `done` records the actions. */
function worldOf(different: Partial<Situation>, done: unknown[]): ReconcileDependencies {
  const situation = { ...serving, ...different }
  return {
    refusals: { ids: new Set(situation.hasRefused ? [running.id] : []), recoverMs: 0 },
    store: { rows: { find: async () => situation.row }, jobs: { runs: async () => situation.isDesired } },
    locks: createDeploymentLocks(),
    instances: {
      observe: async () => situation.observed,
      adopt: async () => void done.push('adopt'),
      isAdopted: () => situation.isAdopted,
    },
    gateway: { current: () => situation.routed, probe: async () => situation.status },
    routes: {
      isOpen: () => situation.isOpen,
      unroute: async (_, mayUnroute) => {
        if ((await mayUnroute?.()) === false) return null
        done.push('unroute')
        return situation.routed
      },
      route: async (_, to, mayRoute) => {
        const may = await mayRoute()
        if (may) done.push(['route', to])
        return may
      },
    },
    replicas: replicasOf(situation.isSteady),
    releaseOf: async ({ id, app_id }) => ({
      id,
      appId: app_id,
      appNumber: 1,
      projectId: 'proj_1',
      internalName: 'app',
      limits: { memoryBytes: 1, cpus: 1, diskBytes: 8e9 },
      variables: {},
    }),
    revive: async () => void done.push('revive'),
  }
}

/** Reconciles `seen` in a situation that differs from a serving release, and returns the actions. */
async function actionsIn(different: Partial<Situation>, seen = running): Promise<unknown[]> {
  const done: unknown[] = []
  await createReconcile(worldOf(different, done))(seen, stopping)
  return done
}

describe('a running release', () => {
  it('that serves its address is left unchanged', async () => {
    expect(await actionsIn({})).toEqual([])
  })

  it('without a route is adopted and gets the route when its instance listens', async () => {
    expect(await actionsIn({ routed: null })).toEqual(['adopt', ['route', upstream]])
  })

  it('whose route has outlived its leader is adopted by the next leader', async () => {
    expect(await actionsIn({ isAdopted: false })).toEqual(['adopt', ['route', upstream]])
  })

  it('loses its route and restarts when its instance has ended', async () => {
    expect(await actionsIn({ isAdopted: false, observed: exited })).toEqual(['unroute', 'revive'])
  })

  it('that has refused a connection keeps its route when it listens', async () => {
    expect(await actionsIn({ hasRefused: true })).toEqual(['adopt', ['route', upstream]])
  })

  it('that has refused a connection and does not listen loses its route before its restart', async () => {
    const starting: Observation = { state: 'starting', port: 10_000 }
    expect(await actionsIn({ hasRefused: true, observed: starting })).toEqual(['unroute', 'revive'])
  })

  it('without an instance is restarted', async () => {
    const row = { ...running, instance: null }
    expect(await actionsIn({ row, routed: null }, row)).toEqual(['unroute', 'revive'])
  })

  it('is not restarted when another release took over', async () => {
    expect(await actionsIn({ isAdopted: false, observed: exited, isDesired: false })).toEqual(['unroute'])
  })

  it('is left unchanged after a stop', async () => {
    const row = { ...running, status: 'stopped' as const }
    expect(await actionsIn({ row, isAdopted: false, observed: exited })).toEqual([])
  })

  it('is left unchanged while another program holds its address', async () => {
    expect(await actionsIn({ isOpen: false, routed: null })).toEqual([])
  })
})

describe('a release whose instance is replaced during the reconciliation', () => {
  const successor: Handle = { runtime: 'process', data: { pid: 2 } }
  /** Returns the actions when the row names another instance after it was read. */
  const actionsAfterwards = async (different: Partial<Situation>) => {
    const done: unknown[] = []
    const rows = [running]
    await createReconcile({
      ...worldOf(different, done),
      store: {
        rows: { find: async () => rows.pop() ?? { ...running, instance: successor } },
        jobs: { runs: async () => true },
      },
    })(running, stopping)
    return done
  }

  it('does not get its predecessor’s address again', async () => {
    expect(await actionsAfterwards({ isAdopted: false, observed: listening })).toEqual(['adopt'])
  })

  it('keeps its successor’s address, and is not restarted', async () => {
    expect(await actionsAfterwards({ isAdopted: false, observed: exited })).toEqual([])
  })
})

it('a release gets routes to the replicas that it has when its turn comes', async () => {
  const done: unknown[] = []
  const ports = [10_001, 10_002]
  const replica = (port: number) => ({ host: '127.0.0.1', port })
  await createReconcile({
    ...worldOf({ isAdopted: false }, done),
    replicas: { ...replicasOf(false), endpoints: async () => [replica(ports.shift() ?? 10_002)] },
  })(running, stopping)
  expect(done).toEqual(['adopt', 'adopt', ['route', { ...upstream, endpoints: [...endpoints, replica(10_002)] }]])
})

it('a release whose second instance hangs at its start is restarted when its first instance ends', async () => {
  const done: string[] = []
  const hanging = Promise.withResolvers<void>()
  let observed: Observation = listening
  const locks = createDeploymentLocks()
  const reconcile = createReconcile({
    ...worldOf({ isSteady: false }, done),
    locks,
    instances: { observe: async () => observed, adopt: async () => undefined, isAdopted: () => observed === listening },
    replicas: {
      ...replicasOf(false),
      complete: async () => {
        done.push('complete')
        await hanging.promise
      },
    },
  })
  const first = reconcile(running, stopping)
  await expect.poll(() => done).toContain('complete')
  observed = exited
  const second = reconcile(running, stopping)
  await expect.poll(() => done).toContain('revive')
  hanging.resolve()
  await Promise.all([first, second])
  expect(locks.isHeld(running.id)).toBe(false)
})

describe('a static site', () => {
  const folder = '/data/site'
  const site: Upstream = { deploymentId: 'dep_1', endpoints: [{ folder }] }
  const served: Partial<Situation> = { routed: site, observed: { state: 'listening', endpoints: site.endpoints } }

  it('that the gateway could not read gets access again', async () => {
    expect(await actionsIn({ ...served, hasRefused: true })).toEqual(['adopt', ['route', site]])
  })

  it('that the gateway still cannot read is restarted', async () => {
    expect(await actionsIn({ ...served, hasRefused: true, status: 503 })).toEqual(['adopt', 'unroute', 'revive'])
  })
})

describe('all running releases', () => {
  const rows = ['slow', 'broken', 'good'].map((id) => deploymentRow({ id }))
  const allOf = (reconcile: Reconcile, locks = createDeploymentLocks()) =>
    createReconcileAll({
      store: { rows: { running: async () => rows } },
      replicas: { refresh: async () => undefined, settle: async () => undefined },
      locks,
      reconcile,
      logger: pino({ level: 'silent' }),
    })

  it('are reconciled, even when one fails and one takes long', async () => {
    const slow = Promise.withResolvers<void>()
    const reconciled: string[] = []
    const all = allOf(async ({ id }) => {
      if (id === 'slow') await slow.promise
      if (id === 'broken') throw new Error('broken')
      reconciled.push(id)
    })
    expect(await all.run(stopping)).toBe(false)
    await expect.poll(() => reconciled).toEqual(['good'])
    slow.resolve()
    await all.settle()
    expect(reconciled).toEqual(['good', 'slow'])
  })

  it('are steady when all of them serve', async () => {
    expect(await allOf(() => null).run(stopping)).toBe(true)
    expect(await allOf(({ id }) => (id === 'good' ? null : Promise.resolve())).run(stopping)).toBe(false)
  })

  it('are checked again when a job of a deployment has ended, and not during the job', async () => {
    const locks = createDeploymentLocks()
    const all = allOf(() => null, locks)
    const work = Promise.withResolvers<void>()
    const working = locks.run('dep_1', () => work.promise)
    expect(await all.run(stopping)).toBe(true)
    expect(all.mayHaveChanged()).toBe(false)
    work.resolve()
    await working
    expect(all.mayHaveChanged()).toBe(true)
    await all.run(stopping)
    expect(all.mayHaveChanged()).toBe(false)
  })
})
