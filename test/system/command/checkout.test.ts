import { spawnSync } from 'node:child_process'
import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { command } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it('the command says how to build a checkout that is not built', async () => {
  await using directory = await temporaryDirectory()
  const copy = join(directory.path, 'bin', 'fairlead.js')
  await cp(command, copy)
  await writeFile(join(directory.path, 'package.json'), '{"type":"module"}')
  const result = spawnSync(process.execPath, [copy, 'status'], { encoding: 'utf8' })
  expect(result.status).toBe(1)
  expect(result.stderr).toMatch(/^fairlead: this checkout is not built yet\. Run npm run build .*\n$/)
})
