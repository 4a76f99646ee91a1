import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeFolder } from '../../../server/src/platform/disk/folders.ts'
import { sizeOf } from '../../../server/src/platform/disk/tree-size.ts'
import { prefix } from '../../harness/temporary.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), prefix))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

test('removeFolder deletes folders whose permissions a build has removed', async () => {
  const folder = join(directory, 'closed')
  await mkdir(join(folder, 'source', 'a', 'b'), { recursive: true })
  await writeFile(join(folder, 'source', 'a', 'b', 'file'), '')
  await chmod(join(folder, 'source', 'a', 'b'), 0o500)
  await chmod(join(folder, 'source', 'a'), 0o000)
  await removeFolder(folder)
  expect(await readdir(directory)).not.toContain('closed')
})

test('a tree deeper than the longest path is measured and deleted', async () => {
  const folder = join(directory, 'deep')
  await mkdir(folder)
  const dig = `const { mkdirSync, writeFileSync } = require('node:fs')
for (let n = 0; n < 60; n += 1) { mkdirSync('x'.repeat(100)); process.chdir('x'.repeat(100)) }
writeFileSync('file', '')`
  await promisify(execFile)(process.execPath, ['-e', dig], { cwd: folder })
  // Each of the 61 folders and the file takes space.
  const bytes = await sizeOf([folder])
  expect([bytes >= 62 * 1_024, Number.isFinite(bytes)]).toEqual([true, true])
  await removeFolder(folder)
  expect(await readdir(directory)).not.toContain('deep')
})
