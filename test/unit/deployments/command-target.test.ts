import { expect, it } from 'vitest'
import { createFindCommandTarget } from '../../../server/src/features/deployments/command-target.ts'
import { createDeploymentLocks } from '../../../server/src/features/deployments/lock.ts'
import type { Handle } from '../../../server/src/runtimes/runtime.ts'
import { deploymentRow, releaseOfRow } from '../../harness/deployment-row.ts'

const instance: Handle = { runtime: 'process', data: { pid: 1 } }
const own: Handle = { runtime: 'process', data: { pid: 2 } }
const stopped = deploymentRow({ status: 'stopped', retained: true, generation: 2 })

/** An app whose only release is `row`; `events` records the actions. */
function app(row = stopped) {
  const now = { row }
  const events: string[] = []
  const locks = createDeploymentLocks()
  const find = createFindCommandTarget({
    database: undefined as never,
    store: {
      releases: { serving: async () => [], latestEnded: async () => now.row } as never,
      rows: { find: async () => now.row } as never,
    },
    apps: { byIds: async () => new Map([['app_1', {} as never]]) },
    releaseOf: async () => releaseOfRow,
    runtimes: { named: () => ({ instances: {} }) } as never,
    instances: {
      async start() {
        events.push('start')
        return own
      },
      stop: async () => void events.push('stop'),
    },
    locks,
    teardown: ({ id }) =>
      locks.run(id, async () => {
        events.push('teardown')
        now.row = { ...now.row, instance: null }
      }),
  })
  return { locks, events, now, begin: () => find('app_1', { mayStart: true }) }
}

it('a late notification of a stop ends no command that began after the stop', async () => {
  const { locks, begin } = app()
  const target = await begin()
  locks.interrupt({ id: stopped.id, generation: 2, hasEnded: true })
  expect(target?.own?.signal.aborted).toBe(false)
})

it('a notification of a stop that arrives while a command begins does not end it', async () => {
  const { locks, begin } = app()
  const beginning = begin()
  await Promise.resolve()
  locks.interrupt({ id: stopped.id, generation: 2, hasEnded: true })
  expect((await beginning)?.own?.signal.aborted).toBe(false)
})

it('a command ends when the release is started again', async () => {
  const { locks, begin } = app()
  const target = await begin()
  locks.interrupt({ id: stopped.id, generation: 2 })
  expect(target?.own?.signal.aborted).toBe(true)
})

it('an instance that was just stopped ends before the command begins', async () => {
  const { events, begin } = app({ ...stopped, instance })
  await begin()
  expect(events).toEqual(['teardown', 'start'])
})

it('commands share a release, and release it after the last command', async () => {
  const { locks, events, begin } = app()
  const [first, second] = await Promise.all([begin(), begin()])
  await first?.own?.end()
  expect(locks.isHeld(stopped.id)).toBe(true)
  await second?.own?.end()
  await expect.poll(() => locks.isHeld(stopped.id)).toBe(false)
  expect(events).toEqual(['start', 'start', 'stop', 'stop'])
})

it('no command begins in a release that is starting, running or deleted', async () => {
  for (const row of [
    { ...stopped, status: 'building' as const },
    { ...stopped, status: 'running' as const },
    { ...stopped, retained: false },
  ]) {
    const { locks, begin } = app(row)
    await expect(begin()).rejects.toThrow('The app is being started')
    await expect.poll(() => locks.isHeld(row.id)).toBe(false)
  }
})
