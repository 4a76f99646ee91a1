import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readComposeFile } from '../../../server/src/commands/client/compose/file.ts'
import { sourceOf } from '../../../server/src/commands/client/compose/import.ts'
import { planImport } from '../../../server/src/commands/client/compose/plan.ts'
import { repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const compose = 'services: { web: { build: . }, api: { build: ../api } }'

it('a compose file behind a symbolic link belongs to the link’s target repository', async () => {
  await using source = await repository({ 'deploy/compose.yaml': compose, 'api/a.txt': '' })
  await using elsewhere = await temporaryDirectory()
  const link = join(elsewhere.path, 'link')
  await symlink(join(source.path, 'deploy'), link)
  for (const given of [link, join(link, 'compose.yaml'), join(source.path, 'deploy')]) {
    const file = await readComposeFile(given, {})
    const { apps } = planImport(file)
    const found = await sourceOf(apps, file.folder)
    expect(await Promise.all(['.', '../api', '../new'].map((each) => found?.rootOf(each)))).toEqual([
      'deploy',
      'api',
      'new',
    ])
  }
})

it('a build outside of a repository is reported before anything is created, and images need no repository', async () => {
  await using folder = await temporaryDirectory()
  await mkdir(join(folder.path, 'api'))
  const appsOf = (source: { folder: string } | { image: string }) => [{ source }] as never
  await expect(sourceOf(appsOf({ folder: '.' }), folder.path)).rejects.toThrow('is not a git repository')
  expect(await sourceOf(appsOf({ image: 'nginx' }), folder.path)).toBeNull()
})
