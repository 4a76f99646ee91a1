import { execFile } from 'node:child_process'
import { expect, it } from 'vitest'
import { entries } from '../../bench/entries.ts'

const minutes = 60_000

it.each(Object.keys(entries))(
  'a short round of the benchmark %s ends well',
  { timeout: 17 * minutes },
  async (name) => {
    const args = ['test/bench/main.ts', '--short', name]
    const failure = await new Promise<string | null>((done) => {
      execFile('node', args, { timeout: 16 * minutes }, (error, stdout, stderr) => done(error && stdout + stderr))
    })
    expect(failure).toBeNull()
  },
)
