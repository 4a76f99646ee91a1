import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { createInFlight } from '../../../server/src/gateway/proxy/in-flight.ts'

/** Lets all pending work run. */
const turn = () => new Promise(setImmediate)

describe('the set of exchanges in flight', () => {
  it('is empty exactly when all have left, in any order, and cuts the others off', async () => {
    const steps = fc.array(fc.oneof(fc.constant('join' as const), fc.nat(20)), { maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(steps, async (moves) => {
        const inFlight = createInFlight()
        const leaves: (() => void)[] = []
        const present = new Set<number>()
        const cut: number[] = []
        for (const move of moves) {
          if (move === 'join') {
            const number = leaves.length
            present.add(number)
            leaves.push(inFlight.add(() => cut.push(number)))
          } else {
            // Some leave twice, which changes nothing.
            leaves[move]?.()
            present.delete(move)
          }
        }
        let empty = false
        void inFlight.whenEmpty().then(() => (empty = true))
        await turn()
        expect(empty).toBe(present.size === 0)
        await inFlight.finish({ timeoutMs: 0 })
        expect(cut.sort((a, b) => a - b)).toEqual([...present].sort((a, b) => a - b))
        expect(empty).toBe(true)
        for (const leave of leaves) leave()
      }),
    )
  })

  it('cuts no exchange that leaves in time', async () => {
    const inFlight = createInFlight()
    const leave = inFlight.add(() => expect.unreachable())
    const finished = inFlight.finish({ timeoutMs: 2 ** 30 })
    leave()
    await finished
  })

  it('cuts no exchange once the waiting is over', async () => {
    vi.useFakeTimers()
    try {
      const inFlight = createInFlight()
      inFlight.add(() => expect.unreachable())
      const waiting = new AbortController()
      const finished = inFlight.finish({ timeoutMs: 1_000, signal: waiting.signal })
      waiting.abort()
      await finished
      await vi.advanceTimersByTimeAsync(10_000)
    } finally {
      vi.useRealTimers()
    }
  })

  it('lets exchanges leave that are being cut', async () => {
    const inFlight = createInFlight()
    let cuts = 0
    const leaves = [1, 2, 3].map(() =>
      inFlight.add(() => {
        cuts += 1
        for (const leave of leaves) leave()
      }),
    )
    await inFlight.finish({ timeoutMs: 0 })
    expect(cuts).toBe(3)
  })
})
