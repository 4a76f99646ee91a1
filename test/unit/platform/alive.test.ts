import { expect, it, vi } from 'vitest'
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

it('a silent step is reported repeatedly, with its time', async () => {
  let now = 0
  using _ = vi.spyOn(performance, 'now').mockImplementation(() => now)
  const said = lines(3, async () => {
    now += 500
  })
  // Each sign of life comes after two looks.
  expect(await said).toEqual([
    'Still running npm ci (1 s).',
    'Still running npm ci (2 s).',
    'Still running npm ci (3 s).',
  ])
})

it('a printing step is not reported until it is silent', async () => {
  let looks = 0
  expect(await lines(1, async () => Math.min(++looks, 20))).toHaveLength(1)
  // Each pause has two checks, which saw a change each time.
  expect(looks).toBeGreaterThan(20)
})

it('the step returns the result and the error of its work, even when no report is possible', async () => {
  const tried = Promise.withResolvers<string>()
  const say = () => {
    tried.resolve('done')
    return Promise.reject(new Error('the disk is full'))
  }
  const step = { what: 'x', say }
  expect(await sayAlive(step, () => tried.promise, pauses)).toBe('done')
  await expect(sayAlive(step, () => Promise.reject(new Error('failed')), pauses)).rejects.toThrow('failed')
})
