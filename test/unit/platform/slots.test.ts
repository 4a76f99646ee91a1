import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createKeyedLock } from '../../../server/src/platform/keyed-lock.ts'
import { createFairQueue, createSlots } from '../../../server/src/platform/slots.ts'

const never = new AbortController().signal

/** Starts work that ends when the test says so, and records the order in which the work began. */
function recorder() {
  const order: string[] = []
  const ends: (() => void)[] = []
  return {
    order,
    work: (name: string) => async () => {
      order.push(name)
      await new Promise<void>((end) => ends.push(end))
    },
    async endAll() {
      while (ends.length > 0) {
        ends.shift()?.()
        await turn()
      }
    },
  }
}

describe('a fair queue', () => {
  const pushes = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 40 })

  it('reports the order in which it returns its items', () => {
    fc.assert(
      fc.property(pushes, fc.nat(10), (owners, taken) => {
        const queue = createFairQueue<string, number>()
        for (const [number, owner] of owners.entries()) queue.push(owner, number)
        for (let turn = 0; turn < taken; turn += 1) queue.shift()
        const order = queue.order()
        expect(order.map(() => queue.shift())).toEqual(order)
        expect(queue.shift()).toBeUndefined()
      }),
    )
  })

  it('gives every owner a turn before any owner has a second, and keeps each owner’s order', () => {
    fc.assert(
      fc.property(pushes, (owners) => {
        const queue = createFairQueue<string, { owner: string; number: number }>()
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
          // Between two turns of one owner, every other waiting owner has had a turn.
          for (const owner of new Set(owners)) {
            if (last < 0 || owner === item.owner || !waiting(turn, owner)) continue
            expect(taken.slice(last + 1, turn).some((between) => between.owner === owner)).toBe(true)
          }
        })
      }),
    )
  })

  it('forgets removed items', () => {
    const queue = createFairQueue<string, string>()
    queue.push('a', 'a1')
    queue.push('a', 'a2')
    queue.push('b', 'b1')
    queue.remove('a', 'a1')
    queue.remove('b', 'b1')
    queue.remove('c', 'c1')
    expect([queue.shift(), queue.shift()]).toEqual(['a2', undefined])
  })
})

describe('slots', () => {
  it('never exceed their number, and an abort ends the waiting', async () => {
    const slots = createSlots(2)
    const { order, work, endAll } = recorder()
    const use = (owner: string, name: string, signal = never) => slots.use(owner, signal, work(name))
    const aborted = new AbortController()
    const all = [use('a', 'a1'), use('a', 'a2'), use('a', 'a3'), use('b', 'b1'), use('b', 'b2')]
    const waiting = use('c', 'c1', aborted.signal)
    await turn()
    expect(order).toEqual(['a1', 'a2'])
    aborted.abort(new Error('aborted'))
    await expect(waiting).rejects.toThrow('aborted')
    await endAll()
    await Promise.all(all)
    expect(order).toEqual(['a1', 'a2', 'a3', 'b1', 'b2'])
    await expect(slots.use('a', aborted.signal, async () => undefined)).rejects.toThrow('aborted')
  })

  it('are free again after work that failed', async () => {
    const slots = createSlots(1)
    const failing = slots.use('a', undefined, () => Promise.reject(new Error('broken')))
    await expect(failing).rejects.toThrow('broken')
    expect(await slots.use('a', undefined, async () => 'done')).toBe('done')
  })

  it('keep their number for any starts, ends and aborts', async () => {
    const step = fc.oneof(
      fc.record({ owner: fc.constantFrom('a', 'b', 'c') }),
      fc.constant('end' as const),
      fc.constant('abort' as const),
    )
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(step, { maxLength: 40 }), async (count, steps) => {
        const slots = createSlots(count)
        const ends: (() => void)[] = []
        const aborts: AbortController[] = []
        const all: Promise<unknown>[] = []
        let [running, begun, refused] = [0, 0, 0]
        for (const each of steps) {
          if (each === 'end') ends.shift()?.()
          else if (each === 'abort') aborts.shift()?.abort(new Error('aborted'))
          else {
            const controller = new AbortController()
            aborts.push(controller)
            const used = slots.use(each.owner, controller.signal, async () => {
              running += 1
              begun += 1
              expect(running).toBeLessThanOrEqual(count)
              await new Promise<void>((end) => ends.push(end))
              running -= 1
            })
            all.push(used.catch(() => (refused += 1)))
          }
          await turn()
          expect(running).toBe(Math.min(count, all.length - refused - (begun - running)))
        }
        while (running > 0) {
          ends.shift()?.()
          await turn()
        }
        await Promise.all(all)
        expect(begun + refused).toBe(all.length)
      }),
      { numRuns: 50 },
    )
  })

  it('taken without waiting never exceed their number, and owners are called again in order', () => {
    const action = fc.oneof(fc.record({ owner: fc.nat({ max: 5 }) }), fc.constant('release' as const))
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3 }), fc.array(action, { maxLength: 60 }), (count, actions) => {
        const slots = createSlots<number>(count)
        let taken = 0
        const line: number[] = []
        const take = (owner: number): void => {
          const retry = () => {
            expect(owner).toBe(line.shift())
            take(owner)
          }
          if (slots.take(owner, retry)) taken++
          else if (!line.includes(owner)) line.push(owner)
        }
        for (const step of actions) {
          if (step !== 'release') take(step.owner)
          else if (taken > 0) {
            taken--
            slots.release()
          }
          expect(taken).toBeLessThanOrEqual(count)
          if (line.length > 0) expect(taken).toBe(count)
        }
      }),
    )
  })

  it('are offered to the next owner when a waiting owner leaves', () => {
    const slots = createSlots(1)
    const called: string[] = []
    expect(slots.take('a', () => undefined)).toBe(true)
    expect(slots.take('b', () => called.push('b'))).toBe(false)
    expect(slots.take('c', () => called.push('c'))).toBe(false)
    slots.release()
    expect(called).toEqual(['b', 'c'])
  })
})

describe('a keyed lock', () => {
  it('runs the work on one key in order, one at a time, and the work on other keys concurrently', async () => {
    const lock = createKeyedLock()
    const { order, work, endAll } = recorder()
    const all = [lock('a', work('a1')), lock('a', work('a2')), lock('b', work('b1'))]
    await turn()
    expect(order).toEqual(['a1', 'b1'])
    await endAll()
    await Promise.all(all)
    expect(order).toEqual(['a1', 'b1', 'a2'])
  })

  it('starts the next work after a failure, and stops waiting on an abort', async () => {
    const lock = createKeyedLock()
    const aborted = new AbortController()
    const first = Promise.withResolvers<void>()
    const failing = lock('a', () => first.promise)
    const waiting = lock('a', async () => 'never', aborted.signal)
    const last = lock('a', async () => 'done')
    aborted.abort(new Error('aborted'))
    await expect(waiting).rejects.toThrow('aborted')
    first.reject(new Error('broken'))
    await expect(failing).rejects.toThrow('broken')
    expect(await last).toBe('done')
  })
})

it('tells waiting work how many others end before it, at every change', async () => {
  const slots = createSlots(1)
  const { work, endAll } = recorder()
  const told: string[] = []
  const use = (owner: string, name: string, signal = never) =>
    slots.use(owner, signal, work(name), (before) => void told.push(`${name}: ${before}`)).catch(() => undefined)
  const aborted = new AbortController()
  const all = [use('a', 'a1'), use('a', 'a2', aborted.signal), use('a', 'a3'), use('b', 'b1')]
  // Owners take turns, so that the second of another owner is put back.
  expect(told).toEqual(['a2: 1', 'a3: 2', 'b1: 2', 'a3: 3'])
  told.length = 0
  aborted.abort()
  expect(told).toEqual(['a3: 1'])
  await turn()
  await endAll()
  await Promise.all(all)
  expect(told).toEqual(['a3: 1', 'b1: 1'])
})
