import { expect, it } from 'vitest'
import { createLeaving } from '../../../../server/src/deployments/job/leaving.ts'
import type { Upstream } from '../../../../server/src/gateway/client.ts'
import type { Handle } from '../../../../server/src/runtimes/runtime.ts'

const instance: Handle = { runtime: 'process', data: { pid: 1 } }
const upstream: Upstream = { deploymentId: 'dep_1', endpoints: [{ host: '127.0.0.1', port: 1 }] }

/** A leaving instance. The test controls the ends of its requests and of the instance. */
function leaver() {
  const drained = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const events: string[] = []
  const work: Promise<void>[] = []
  const leaving = createLeaving(
    async (_, signal) => {
      events.push('drain')
      signal.addEventListener('abort', () => drained.resolve())
      await drained.promise
    },
    (one) => void work.push(one),
  )
  const begin = () =>
    leaving.begin(instance, upstream, async () => {
      events.push('end')
      await ended.promise
    })
  return { leaving, begin, drained, ended, events, settle: () => Promise.all(work) }
}

it('ends an instance once it has finished its requests, and only once', async () => {
  const { leaving, begin, drained, ended, events, settle } = leaver()
  begin()
  begin()
  expect(leaving.has(instance)).toBe(true)
  expect(events).toEqual(['drain'])
  drained.resolve()
  ended.resolve()
  await settle()
  expect(events).toEqual(['drain', 'end'])
  expect(leaving.has(instance)).toBe(false)
})

it('keeps an instance that is needed again while it finishes its requests', async () => {
  const { leaving, begin, events, settle } = leaver()
  begin()
  expect(leaving.keep(instance)).toBe(true)
  expect(leaving.has(instance)).toBe(false)
  await settle()
  expect(events).toEqual(['drain'])
})

it('cannot keep an instance that is already ending', async () => {
  const { leaving, begin, drained, ended, events, settle } = leaver()
  begin()
  drained.resolve()
  await expect.poll(() => events).toContain('end')
  expect(leaving.keep(instance)).toBe(false)
  expect(leaving.has(instance)).toBe(true)
  ended.resolve()
  await settle()
})
