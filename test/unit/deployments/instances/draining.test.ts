import { expect, it } from 'vitest'
import { createDraining } from '../../../../server/src/features/deployments/replicas.ts'
import type { Upstream } from '../../../../server/src/gateway/client.ts'
import type { Handle } from '../../../../server/src/runtimes/runtime.ts'

const instance: Handle = { runtime: 'process', data: { pid: 1 } }
const upstream: Upstream = { deploymentId: 'dep_1', endpoints: [{ host: '127.0.0.1', port: 1 }] }

/** An instance that is draining, with the ends of its requests and of itself in the hands of the test. */
function drainingInstance() {
  const drained = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const events: string[] = []
  const work: Promise<void>[] = []
  const draining = createDraining(
    async (_, signal) => {
      events.push('drain')
      signal.addEventListener('abort', () => drained.resolve())
      await drained.promise
    },
    (one) => void work.push(one),
  )
  const begin = () =>
    draining.begin(instance, upstream, async () => {
      events.push('end')
      await ended.promise
    })
  return { draining, begin, drained, ended, events, settle: () => Promise.all(work) }
}

it('ends an instance once it has finished its requests, and only once', async () => {
  const { draining, begin, drained, ended, events, settle } = drainingInstance()
  begin()
  begin()
  expect(draining.has(instance)).toBe(true)
  expect(events).toEqual(['drain'])
  drained.resolve()
  ended.resolve()
  await settle()
  expect(events).toEqual(['drain', 'end'])
  expect(draining.has(instance)).toBe(false)
})

it('keeps an instance that is wanted again while it finishes its requests', async () => {
  const { draining, begin, events, settle } = drainingInstance()
  begin()
  expect(draining.keep(instance)).toBe(true)
  expect(draining.has(instance)).toBe(false)
  await settle()
  expect(events).toEqual(['drain'])
})

it('cannot keep an instance that is being ended already', async () => {
  const { draining, begin, drained, ended, events, settle } = drainingInstance()
  begin()
  drained.resolve()
  await expect.poll(() => events).toContain('end')
  expect(draining.keep(instance)).toBe(false)
  expect(draining.has(instance)).toBe(true)
  ended.resolve()
  await settle()
})
