import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { sizeOf } from '../../../server/src/platform/disk/tree-size.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it('adds up all trees, whatever their names, and follows no link', async () => {
  await using directory = await temporaryDirectory()
  const [one, other] = [join(directory.path, '-rf\nNo such file'), join(directory.path, 'b c')]
  await mkdir(join(one, 'x'), { recursive: true })
  await mkdir(other)
  const empty = await sizeOf([one, other])
  await writeFile(join(one, 'x', 'file'), Buffer.alloc(1_000_000, 1))
  await symlink(process.execPath, join(other, 'link'))
  const grown = (await sizeOf([one, other])) - empty
  expect([grown >= 1_000_000, grown < 1_100_000]).toEqual([true, true])
  expect(await sizeOf([one])).toBeLessThan(await sizeOf([one, other]))
})

it('counts empty files', async () => {
  await using directory = await temporaryDirectory()
  const before = await sizeOf([directory.path])
  for (let n = 0; n < 100; n += 1) await writeFile(join(directory.path, String(n)), '')
  expect((await sizeOf([directory.path])) - before).toBeGreaterThanOrEqual(100 * 1_024)
})

it('counts a tree of many files as the sum of its subtrees', async () => {
  await using directory = await temporaryDirectory()
  const folders = ['a', 'b', 'c', 'd'].map((name) => join(directory.path, name))
  for (const folder of folders) {
    await mkdir(folder)
    for (let n = 0; n < 60; n += 1) await writeFile(join(folder, String(n)), Buffer.alloc(n * 200, 1))
  }
  const sizes = await Promise.all(folders.map((folder) => sizeOf([folder])))
  expect(await sizeOf(folders)).toBe(sizes.reduce((sum, size) => sum + size, 0))
})

it('finds nothing in a missing folder', async () => {
  await using directory = await temporaryDirectory()
  await writeFile(join(directory.path, 'file'), '')
  expect(await sizeOf([join(directory.path, 'none'), join(directory.path, 'file', 'below')])).toBe(0)
  expect(await sizeOf([])).toBe(0)
})

it('stops when it has seen enough', async () => {
  await using directory = await temporaryDirectory()
  for (let n = 0; n < 10; n += 1) await writeFile(join(directory.path, String(n)), 'text')
  expect(await sizeOf([directory.path], 1)).toBeGreaterThan(1)
})

it('counts an unreadable folder as infinite', async () => {
  await using directory = await temporaryDirectory()
  await symlink('loop', join(directory.path, 'loop'))
  expect(await sizeOf([join(directory.path, 'loop', 'below')])).toBe(Number.POSITIVE_INFINITY)
})
