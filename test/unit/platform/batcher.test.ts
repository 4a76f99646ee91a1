import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createBatcher } from '../../../server/src/platform/database/batcher.ts'

describe('a batcher', () => {
  it('answers every question with data read after the question', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 40 }), async (pauses) => {
        let state = 0
        const read = createBatcher(async (questions: readonly number[]) => {
          const seen = state
          await new Promise((done) => setImmediate(done))
          return questions.map(() => seen)
        })
        const asked: Promise<void>[] = []
        for (const pause of pauses) {
          state += 1
          const now = state
          asked.push(read(now).then((seen) => expect(seen).toBeGreaterThanOrEqual(now)))
          for (let i = 0; i < pause; i++) await new Promise((done) => setImmediate(done))
        }
        await Promise.all(asked)
      }),
      { numRuns: 50 },
    )
  })

  it('batches the questions that arrive during a statement, and keeps their order', async () => {
    const batches: number[][] = []
    const double = createBatcher(async (numbers: readonly number[]) => {
      batches.push([...numbers])
      await new Promise((done) => setImmediate(done))
      return numbers.map((each) => each * 2)
    })
    const first = double(1)
    await new Promise((done) => setImmediate(done))
    expect(await Promise.all([first, double(2), double(3)])).toEqual([2, 4, 6])
    expect(batches).toEqual([[1], [2, 3]])
  })

  it('rejects a batch that failed and answers the next one', async () => {
    let broken = true
    const read = createBatcher(async (questions: readonly string[]) => {
      if (broken) throw new Error('away')
      return questions
    })
    const both = await Promise.allSettled([read('a'), read('b')])
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    broken = false
    expect(await read('c')).toBe('c')
  })
})
