import { expect, it } from 'vitest'
import { createSharedHold } from '../../../server/src/deployments/attach/shared-hold.ts'
import { createDeploymentLocks } from '../../../server/src/deployments/state/lock.ts'
import type { Handle } from '../../../server/src/runtimes/runtime.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'

const instance: Handle = { runtime: 'process', data: { pid: 1 } }
const stopped = deploymentRow({ status: 'stopped', retained: true, generation: 2 })

/** The release of `row`, which commands may use; `events` says what was done. */
function release(row = stopped) {
  const now = { row }
  const events: string[] = []
  const locks = createDeploymentLocks()
  const hold = createSharedHold({
    store: { rows: { find: async () => now.row } },
    locks,
    teardown: ({ id }) =>
      locks.run(id, async () => {
        events.push('teardown')
        now.row = { ...now.row, instance: null }
      }),
  })
  const join = async () => {
    const held = await hold.join(row.id)
    events.push(held === null ? 'refused' : 'joined')
    return held
  }
  return { locks, events, join, now }
}

it('word of a stop that comes late ends no command that began after the stop', async () => {
  const { locks, join } = release()
  const held = await join()
  locks.interrupt({ id: stopped.id, generation: 2, isAtRest: true })
  expect(held?.signal.aborted).toBe(false)
})

it('word of a stop that comes while a command begins does not end it', async () => {
  const { locks, join } = release()
  const joining = join()
  locks.interrupt({ id: stopped.id, generation: 2, isAtRest: true })
  expect((await joining)?.signal.aborted).toBe(false)
})

it('a command ends when the release is started again, and for its removal', async () => {
  const { locks, join } = release()
  const held = await join()
  locks.interrupt({ id: stopped.id, generation: 2 })
  expect(held?.signal.aborted).toBe(true)
})

it('what serves when it was stopped a moment ago ends before the command begins', async () => {
  const { events, join } = release({ ...stopped, instance })
  await join()
  expect(events).toEqual(['teardown', 'joined'])
})

it('commands use a release together, and the lock is given back after the last one', async () => {
  const { locks, join } = release()
  const [first, second] = await Promise.all([join(), join()])
  first?.leave()
  expect(locks.isHeld(stopped.id)).toBe(true)
  second?.leave()
  await expect.poll(() => locks.isHeld(stopped.id)).toBe(false)
})

it('a command after a request waits for it, and does not join those that the request ends', async () => {
  const { locks, events, join } = release()
  const ended = await join()
  locks.interrupt({ id: stopped.id, generation: 2 })
  const request = locks.run(stopped.id, async () => void events.push('request'))
  const next = join()
  ended?.leave()
  await Promise.all([request, next])
  expect(events).toEqual(['joined', 'request', 'joined'])
})

it('a release that is being started, that runs or that is not kept is refused, and not held', async () => {
  for (const row of [
    { ...stopped, status: 'building' as const },
    { ...stopped, status: 'running' as const },
    { ...stopped, retained: false },
  ]) {
    const { locks, events, join } = release(row)
    await join()
    expect(events).toEqual(['refused'])
    await expect.poll(() => locks.isHeld(row.id)).toBe(false)
  }
})
