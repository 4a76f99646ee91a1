import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { readLink, writeLink } from '../../../server/src/commands/client/repository.ts'
import { repository } from '../../harness/repository.ts'

const link = { url: 'http://fairlead.example/v1', project: 'proj_1', app: 'web' }

it('concurrent deployments of a folder all keep its link', async () => {
  await using source = await repository({ 'a.txt': '' })
  await Promise.all(Array.from({ length: 8 }, () => writeLink(source.path, link)))
  expect(await readLink(source.path)).toEqual(link)
})

it('a folder with a read-only git configuration is deployed all the same', async () => {
  await using source = await repository({ 'a.txt': '' })
  await writeFile(join(source.path, '.git', 'config.lock'), '')
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  await writeLink(source.path, link)
  const [[said] = []] = written.mock.calls
  written.mockRestore()
  expect(said).toContain('the folder does not remember its app: git: error: could not lock config file')
  expect(await readLink(source.path)).toBeUndefined()
})
