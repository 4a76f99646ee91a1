import { open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createHostsFiles } from '../../../../server/src/runtimes/docker/network/project-names.ts'
import type { NamedAddress } from '../../../../server/src/runtimes/network/neighbours.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

const linePattern = /^(127\.0\.0\.1 localhost|::1 ip6-localhost ip6-loopback|\d+\.\d+\.\d+\.\d+ [a-z-]+\.internal|)$/

it('running containers see all names of their project’s processes, and only complete lines', async () => {
  await using directory = await temporaryDirectory()
  const folder = join(directory.path, 'names')
  let named: readonly NamedAddress[] = []
  const files = createHostsFiles(folder, (projectId) => (projectId === 'proj_a' ? named : []))
  const path = await files.make('proj_a')
  const { ino, mode } = await stat(path)
  expect(mode & 0o777).toBe(0o644)
  // A container keeps its original file.
  await using seen = await open(path)

  const some = fc.array(fc.record({ name: fc.stringMatching(/^[a-z][a-z-]{0,30}$/), address: fc.ipV4() }), {
    maxLength: 100,
  })
  await fc.assert(
    fc.asyncProperty(some, async (next) => {
      named = next
      const written = files.refresh('proj_a')
      const { buffer, bytesRead } = await seen.read({ buffer: Buffer.alloc(65_536), position: 0 })
      await written
      for (const line of buffer.toString('utf8', 0, bytesRead).split('\n')) expect(line).toMatch(linePattern)
      const text = await readFile(path, 'utf8')
      expect(text.split('\n').slice(2, -1)).toEqual(next.map(({ name, address }) => `${address} ${name}.internal`))
    }),
    { numRuns: 50 },
  )
  expect((await stat(await files.make('proj_a'))).ino).toBe(ino)
})

it('a project without containers has no file, and needs none', async () => {
  await using directory = await temporaryDirectory()
  const files = createHostsFiles(join(directory.path, 'names'), () => [])
  expect(await files.projects()).toEqual([])
  await files.refresh('proj_a')
  await files.remove('proj_a')
  await files.make('proj_b')
  expect(await files.projects()).toEqual(['proj_b'])
  await files.remove('proj_b')
  expect(await files.projects()).toEqual([])
})
