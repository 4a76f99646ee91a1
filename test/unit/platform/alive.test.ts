import { expect, it } from 'vitest'
import { sayAlive } from '../../../server/src/platform/alive.ts'

const pauses = { first: 1, next: 1 }

/** Runs a step that ends once it has said `lines` lines. */
async function lines(count: number, printed?: () => Promise<unknown>): Promise<string[]> {
  const said: string[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  const say = (line: string) => {
    if (said.push(line) === count) resolve()
  }
  await sayAlive({ what: 'running npm ci', say, ...(printed && { printed }) }, () => promise, pauses)
  return said
}

it('a step that prints nothing is told again and again, with its time', async () => {
  expect(await lines(3)).toEqual(Array(3).fill('Still running npm ci (0 s).'))
})

it('a step that prints is not told until it is silent', async () => {
  let looks = 0
  expect(await lines(1, async () => Math.min(++looks, 20))).toHaveLength(1)
  // Two looks for each pause, which saw something else each time.
  expect(looks).toBeGreaterThan(20)
})

it('the result and the error of the step are those of the work, also when nothing can be said', async () => {
  const tried = Promise.withResolvers<string>()
  const say = () => {
    tried.resolve('done')
    return Promise.reject(new Error('the disk is full'))
  }
  const step = { what: 'x', say }
  expect(await sayAlive(step, () => tried.promise, pauses)).toBe('done')
  await expect(sayAlive(step, () => Promise.reject(new Error('failed')), pauses)).rejects.toThrow('failed')
})
