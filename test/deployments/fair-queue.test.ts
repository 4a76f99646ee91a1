import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createBuildSlots } from '../../server/src/builds/build-slots.ts'
import { createFairQueue } from '../../server/src/builds/fair-queue.ts'

const pushes = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 40 })

it('gives every owner a turn before anybody has a second one, and each theirs in order', () => {
  fc.assert(
    fc.property(pushes, (owners) => {
      const queue = createFairQueue<{ owner: string; number: number }>()
      owners.forEach((owner, number) => {
        queue.push(owner, { owner, number })
      })
      const taken: { owner: string; number: number }[] = []
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) taken.push(item)
      expect(taken).toHaveLength(owners.length)
      const waiting = (from: number, owner: string) => taken.slice(from).some((item) => item.owner === owner)
      taken.forEach((item, turn) => {
        const before = taken.slice(0, turn).findLast(({ owner }) => owner === item.owner)
        if (before !== undefined) expect(before.number).toBeLessThan(item.number)
        const last = taken.findLastIndex(({ owner }, index) => index < turn && owner === item.owner)
        // Between two turns of one owner, everybody who waits has had one.
        for (const owner of new Set(owners)) {
          if (last < 0 || owner === item.owner || !waiting(turn, owner)) continue
          expect(taken.slice(last + 1, turn).some((between) => between.owner === owner)).toBe(true)
        }
      })
    }),
  )
})

it('forgets what was taken out', () => {
  const queue = createFairQueue<string>()
  queue.push('a', 'a1')
  queue.push('a', 'a2')
  queue.push('b', 'b1')
  queue.remove('a', 'a1')
  queue.remove('b', 'b1')
  queue.remove('c', 'c1')
  expect([queue.shift(), queue.shift()]).toEqual(['a2', undefined])
})

it('never runs more than there are places, and lets go who no longer wants one', async () => {
  const slots = createBuildSlots(2)
  const never = new AbortController().signal
  const order: string[] = []
  const ends: (() => void)[] = []
  const build = (account: string, name: string, signal = never) =>
    slots.use(account, signal, async () => {
      order.push(name)
      await new Promise<void>((end) => ends.push(end))
    })
  const gone = new AbortController()
  const all = [build('a', 'a1'), build('a', 'a2'), build('a', 'a3'), build('b', 'b1'), build('b', 'b2')]
  const tired = build('c', 'c1', gone.signal)
  await turn()
  expect(order).toEqual(['a1', 'a2'])
  gone.abort(new Error('gone'))
  await expect(tired).rejects.toThrow('gone')
  while (ends.length > 0) {
    ends.shift()?.()
    await turn()
  }
  await Promise.all(all)
  expect(order).toEqual(['a1', 'a2', 'a3', 'b1', 'b2'])
  await expect(slots.use('a', gone.signal, async () => undefined)).rejects.toThrow('gone')
})
