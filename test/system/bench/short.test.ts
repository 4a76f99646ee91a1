import { execFile } from 'node:child_process'
import { expect, it } from 'vitest'

const minutes = 60_000

it('a short round of each benchmark ends well', { timeout: 41 * minutes }, async () => {
  // One process: all rows copy the data directory that the first row makes.
  const args = ['test/bench/main.ts', '--short']
  const failure = await new Promise<string | null>((done) => {
    execFile('node', args, { timeout: 40 * minutes }, (error, stdout, stderr) => done(error && stdout + stderr))
  })
  expect(failure).toBeNull()
})
