import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPlaces } from '../../server/src/webhooks/places.ts'

it('no more places are taken than there are, and those who wait come in turn', () => {
  const action = fc.oneof(fc.record({ who: fc.nat({ max: 5 }) }), fc.constant('release' as const))
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3 }), fc.array(action, { maxLength: 60 }), (count, actions) => {
      const places = createPlaces<number>(count)
      let taken = 0
      const line: number[] = []
      for (const step of actions) {
        if (step === 'release') {
          if (taken === 0) continue
          places.release()
          taken--
          const next = places.next()
          expect(next).toBe(line.shift())
          if (next === undefined) continue
          expect(places.take(next)).toBe(true)
          taken++
        } else if (places.take(step.who)) {
          taken++
        } else if (!line.includes(step.who)) {
          line.push(step.who)
        }
        expect(taken).toBeLessThanOrEqual(count)
      }
    }),
  )
})
