import { expect, it } from 'vitest'
import { createDeploymentLocks } from '../../../server/src/features/deployments/lock.ts'
import { createRoutes } from '../../../server/src/features/deployments/routes.ts'
import type { DeploymentRow } from '../../../server/src/features/deployments/tables.ts'
import { createTeardown } from '../../../server/src/features/deployments/teardown.ts'
import type { Upstream } from '../../../server/src/gateway/client.ts'
import { createKeyedLock } from '../../../server/src/platform/keyed-lock.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'

const upstream: Upstream = { deploymentId: 'dep_1', endpoints: [{ host: '127.0.0.1', port: 10_000 }] }
const instance = { runtime: 'process', data: { pid: 1 } }
const stopped = deploymentRow({ status: 'stopped', retained: true, generation: 2, instance })

/** A serving release with running requests, after its owner has stopped it (`row`), or has also deleted it (no row). */
function serving(row: DeploymentRow | undefined) {
  const now = { row }
  const events: string[] = []
  const requests = Promise.withResolvers<void>()
  let routed: Upstream | null = upstream
  const locks = createDeploymentLocks()
  const teardown = createTeardown({
    store: {
      rows: { find: async () => now.row },
      jobs: { forgetInstance: async () => true },
      instances: { of: async () => [], clear: async () => undefined },
    },
    locks,
    instances: {
      stop: async () => void events.push('stop'),
      halt: async () => void events.push('halt'),
      remove: async () => void events.push('remove'),
    },
    routes: createRoutes({
      gateway: {
        current: () => routed,
        route: async (_, to) => {
          routed = to
          events.push('unroute')
          return upstream
        },
        drain: async (_, { signal }) => {
          const early = new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()))
          await Promise.race([requests.promise, early])
          if (signal?.aborted !== true) events.push('drained')
        },
      },
      lock: createKeyedLock(),
      drainMs: 1_000,
    }),
  })
  return {
    events,
    locks,
    now,
    finishRequests: requests.resolve,
    teardown: () => teardown({ id: 'dep_1', app_id: 'app_1' }),
  }
}

it('a stopped release takes no new requests, finishes its running requests, and ends', async () => {
  const { events, teardown, finishRequests } = serving(stopped)
  const done = teardown()
  await expect.poll(() => events).toEqual(['unroute'])
  finishRequests()
  await done
  expect(events).toEqual(['unroute', 'drained', 'stop', 'halt'])
})

it('a release that was deleted right after its stop also finishes its requests', async () => {
  const { events, teardown, finishRequests } = serving(undefined)
  const done = teardown()
  await expect.poll(() => events).toEqual(['unroute'])
  finishRequests()
  await done
  expect(events).toEqual(['unroute', 'drained', 'remove'])
})

it('a deletion while a stopped release finishes its requests does not cut them off', async () => {
  const { events, locks, now, teardown, finishRequests } = serving(stopped)
  const done = teardown()
  await expect.poll(() => events).toEqual(['unroute'])
  now.row = undefined
  locks.interrupt({ id: 'dep_1', generation: Number.POSITIVE_INFINITY })
  // The teardown begins again. The removal would follow at once.
  await new Promise((resolve) => setImmediate(resolve))
  expect(events).toEqual(['unroute'])
  finishRequests()
  await done
  expect(events).toEqual(['unroute', 'drained', 'remove'])
})

it('a release that its owner starts again is left unchanged', async () => {
  const { events, locks, now, teardown } = serving(stopped)
  const done = teardown()
  await expect.poll(() => events).toEqual(['unroute'])
  now.row = { ...stopped, status: 'building', generation: 3 }
  locks.interrupt({ id: 'dep_1', generation: 2 })
  await done
  expect(events).toEqual(['unroute'])
})
