import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createSlots } from '../../server/src/webhooks/delivery/slots.ts'

it('no more slots are taken than there are, and waiters get them in order', () => {
  const action = fc.oneof(fc.record({ waiter: fc.nat({ max: 5 }) }), fc.constant('release' as const))
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3 }), fc.array(action, { maxLength: 60 }), (count, actions) => {
      const slots = createSlots<number>(count)
      let taken = 0
      const queue: number[] = []
      for (const step of actions) {
        if (step === 'release') {
          if (taken === 0) continue
          slots.release()
          taken--
          const next = slots.next()
          expect(next).toBe(queue.shift())
          if (next === undefined) continue
          expect(slots.take(next)).toBe(true)
          taken++
        } else if (slots.take(step.waiter)) {
          taken++
        } else if (!queue.includes(step.waiter)) {
          queue.push(step.waiter)
        }
        expect(taken).toBeLessThanOrEqual(count)
      }
    }),
  )
})
