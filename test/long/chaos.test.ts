import { randomInt } from 'node:crypto'
import { expect, it } from 'vitest'
import { chaos } from './chaos/chaos.ts'

const kills = 6

it('after kill -9 at random moments under load, everything reaches a correct final state', {
  timeout: 900_000,
}, async ({ signal }) => {
  const seed = randomInt(2 ** 32)
  const { problems } = await chaos({ kills, servers: 1, seed, signal })
  expect(problems, `with the seed ${seed}`).toEqual([])
})
