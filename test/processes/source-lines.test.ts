import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { programFile } from '../../server/src/platform/package-files.ts'

it('the stack trace of a program names the lines of its sources', () => {
  const { status, stderr } = spawnSync(process.execPath, [programFile('planner')], {
    input: 'no JSON',
    encoding: 'utf8',
  })
  expect(status).toBe(1)
  expect(stderr).toMatch(
    /^SyntaxError: .*\n {4}at JSON\.parse \(<anonymous>\)\n {4}at .*\/server\/src\/builds\/plan-program\.ts:\d+:\d+\)?$/m,
  )
})
