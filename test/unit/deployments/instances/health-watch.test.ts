import fc from 'fast-check'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { createHealthWatch } from '../../../../server/src/features/deployments/health-watch.ts'
import { createDeploymentLocks } from '../../../../server/src/features/deployments/lock.ts'
import { afterCheck, mostChecksPerSecond, nextCheckMs } from '../../../../server/src/features/deployments/reconcile.ts'
import type { InstanceRow } from '../../../../server/src/features/deployments/tables.ts'
import type { AddressEndpoint, Upstream } from '../../../../server/src/gateway/protocol/calls.ts'
import type { Handle } from '../../../../server/src/runtimes/runtime.ts'
import { deploymentRow } from '../../../harness/deployment-row.ts'

describe('the rules', () => {
  it('end an instance after three failures in a row, and never sooner', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 60 }), (checks) => {
        let failures = 0
        for (const [at, isHealthy] of checks.entries()) {
          const after = afterCheck(failures, isHealthy)
          const lastThree = checks.slice(Math.max(0, at - 2), at + 1)
          expect(after.isUnhealthy).toBe(lastThree.length === 3 && lastThree.every((each) => !each))
          failures = after.failures
        }
      }),
    )
  })

  it('check no more than ten instances per second, however many there are', () => {
    fc.assert(
      fc.property(fc.nat(5), fc.integer({ min: 1, max: 5_000 }), (failures, instances) => {
        expect(nextCheckMs(failures, instances)).toBeGreaterThanOrEqual((instances / mostChecksPerSecond) * 1_000)
        expect(nextCheckMs(failures, instances)).toBeGreaterThanOrEqual(5_000)
      }),
    )
  })
})

/** A release with `count` instances of `web`, each at the port of its number. */
function watched(count: number) {
  const handleOf = (number: number): Handle => ({ runtime: 'process', data: { number } })
  const numberOf = (handle: Handle): number => Number(handle.data['number'])
  const endpointOf = (number: number): AddressEndpoint => ({ host: '127.0.0.1', port: number })
  const row = deploymentRow({
    status: 'running',
    instance: handleOf(1),
    build_plan: { kind: 'node', build: [], start: { argv: ['node'] }, health: '/health' },
  })
  const numbers = Array.from({ length: count }, (_, index) => index + 1)
  const others = numbers.slice(1).map(
    (number): InstanceRow => ({
      ...{ deployment_id: row.id, type: 'web', number, handle: handleOf(number), state: 'running' },
      ...{ restarts: 0, started_at: new Date() },
    }),
  )
  const unhealthy = new Set<number>()
  const looping = new Set<number>()
  const lives = new Set(numbers)
  const events: string[] = []
  const locks = createDeploymentLocks()
  const state = { isSwitching: false }
  let routed: Upstream = {
    deploymentId: row.id,
    endpoints: numbers.map(endpointOf) as [AddressEndpoint, ...AddressEndpoint[]],
  }
  const portsOf = ({ endpoints }: Upstream) => endpoints.map((each) => ('port' in each ? each.port : 0)).join()
  const watch = createHealthWatch({
    store: {
      rows: { find: async () => row, withHealth: async () => [row], isSwitching: async () => state.isSwitching },
      jobs: { runs: async () => true },
      instances: { of: async () => others, all: async () => others },
    },
    locks,
    instances: {
      observe: async (handle) => ({ state: 'listening', endpoints: [endpointOf(numberOf(handle))] }),
      isAdopted: (handle) => lives.has(numberOf(handle)),
      async stop(_, handle) {
        lives.delete(numberOf(handle))
        events.push(`stop ${numberOf(handle)}`)
      },
    },
    isExpected: (_, { number }) => !looping.has(number),
    ask: async (endpoint) => ('port' in endpoint && unhealthy.has(endpoint.port) ? 'status 503' : 'healthy'),
    routes: {
      async route(_, upstream) {
        routed = upstream
        events.push(`route ${portsOf(upstream)}`)
        return true
      },
    },
    gateway: {
      current: () => routed,
      drain: async (upstream) => void events.push(`drain ${portsOf(upstream)}`),
    },
    note: async (_, __, sentence) => void events.push(sentence),
    logger: pino({ level: 'silent' }),
  })
  const { signal } = new AbortController()
  let now = 1_000_000
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 1) {
      now += 1_000
      await watch.look(now, signal)
      await watch.settle()
    }
  }
  const unroute = (number: number) => {
    const [first, ...more] = routed.endpoints.filter((each) => 'port' in each && each.port !== number)
    if (first !== undefined) routed = { ...routed, endpoints: [first, ...more] }
  }
  return { unhealthy, looping, lives, unroute, events, locks, state, pass, id: row.id }
}

const said = (name: string) => `Fairlead starts ${name} again: it failed 3 health checks in a row; status 503.`

describe('the health of instances', () => {
  it('ends the only instance after three failures, and says why', async () => {
    const { unhealthy, events, pass } = watched(1)
    await pass(60)
    unhealthy.add(1)
    await pass(10)
    unhealthy.delete(1)
    await pass(60)
    expect(events).toEqual([])
    unhealthy.add(1)
    await pass(60)
    expect(events).toEqual([said('web.1'), 'stop 1'])
  })

  it('ends one of several instances at a time, after the others have taken its requests', async () => {
    const { unhealthy, events, pass } = watched(3)
    unhealthy.add(1).add(3)
    await pass(60)
    expect(events).toEqual([said('web.1'), 'route 2,3', 'drain 1', 'stop 1'])
  })

  it('ends the hanging instance, though the other instance restarts repeatedly and answers no request', async () => {
    const { unhealthy, looping, lives, events, pass, unroute } = watched(2)
    lives.delete(2)
    unroute(2)
    unhealthy.add(1)
    await pass(60)
    // It may be starting.
    expect(events).toEqual([])
    looping.add(2)
    await pass(10)
    expect(events).toEqual([said('web.1'), 'stop 1'])
  })

  it('ends no instance without requests, such as the first one while it restarts beside another', async () => {
    const { unhealthy, events, pass, unroute } = watched(2)
    unroute(1)
    unhealthy.add(1)
    await pass(60)
    expect(events).toEqual([])
  })

  it('ends no instance during a switch, nor during another job of the deployment', async () => {
    const { unhealthy, events, locks, state, pass, id } = watched(1)
    unhealthy.add(1)
    state.isSwitching = true
    const release = Promise.withResolvers<void>()
    const held = locks.run(id, () => release.promise)
    await pass(60)
    release.resolve()
    await held
    await pass(60)
    expect(events).toEqual([])
    state.isSwitching = false
    await pass(10)
    expect(events).toEqual([said('web.1'), 'stop 1'])
  })
})
