import { spawnSync } from 'node:child_process'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { temporaryDirectory } from '../harness/temporary.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** What the linter says of a file that would stand at `path` with this content. */
async function lint(path: string, content: string): Promise<string> {
  await using directory = await temporaryDirectory()
  await copyFile(join(root, 'biome.json'), join(directory.path, 'biome.json'))
  await mkdir(dirname(join(directory.path, path)), { recursive: true })
  await writeFile(join(directory.path, path), content)
  const biome = join(root, 'node_modules/.bin/biome')
  const { stdout, stderr } = spawnSync(biome, ['lint', '--vcs-enabled=false', '.'], {
    cwd: directory.path,
    encoding: 'utf8',
  })
  return stdout + stderr
}

const importing = (path: string, imported: string) =>
  lint(path, `import { thing } from '${imported}'\n\nexport const other = thing\n`)

it.each([
  ['receiver/src/new.ts', '@fairlead/server/client'],
  ['receiver/src/new.ts', '../../server/src/contract/ids.ts'],
  ['receiver/src/new.ts', 'koa'],
  ['server/src/contract/new.ts', '../platform/ids.ts'],
  ['server/src/contract/new.ts', 'kysely'],
  ['server/src/platform/new.ts', '../accounts/keys.ts'],
  ['server/src/platform/new.ts', '../http/mount.ts'],
  ['server/src/platform/new.ts', '../server.ts'],
  ['server/src/platform/postgres/new.ts', '../../gateway/gateway.ts'],
  ['server/src/http/new.ts', '../projects/projects.ts'],
  ['server/src/gateway/new.ts', '../deployments/store.ts'],
  ['server/src/accounts/new.ts', '../projects/tables.ts'],
  ['server/src/projects/new.ts', '../deployments/store.ts'],
  ['server/src/databases/new.ts', '../projects/tables.ts'],
  ['server/src/databases/new.ts', '../webhooks/outbox.ts'],
  ['server/src/deployments/steps/new.ts', '../../webhooks/outbox.ts'],
  ['server/src/webhooks/new.ts', '../server.ts'],
  ['server/src/storage/new.ts', '../projects/tables.ts'],
  ['server/src/server.ts', './cli.ts'],
  ['action/src/new.ts', '../../server/src/contract/operations.ts'],
  ['action/src/new.ts', '@fairlead/receiver'],
  ['demo/new.ts', '../server/src/server.ts'],
])('%s may not import %s', async (path, imported) => {
  expect(await importing(path, imported)).toContain('noRestrictedImports')
})

it.each([
  ['server/src/contract/new.ts', 'zod'],
  ['server/src/contract/new.ts', '@fairlead/receiver'],
  ['server/src/contract/new.ts', './ids.ts'],
  ['server/src/deployments/steps/new.ts', '../store.ts'],
  ['server/src/deployments/steps/new.ts', '../../gateway/gateway.ts'],
  ['server/src/webhooks/new.ts', '@fairlead/receiver'],
  ['server/src/server.ts', './deployments/store.ts'],
  ['action/src/new.ts', '@fairlead/server/client'],
  ['demo/new.ts', '@fairlead/receiver'],
])('%s may import %s', async (path, imported) => {
  const said = await importing(path, imported)
  expect(said).toContain('Checked 2 files')
  expect(said).not.toContain('noRestrictedImports')
})

it('reads the environment in the configuration alone', async () => {
  const reading = 'export const port = process.env.PORT\n'
  expect(await lint('server/src/http/new.ts', reading)).toContain('noProcessEnv')
  expect(await lint('server/src/platform/config.ts', reading)).not.toContain('noProcessEnv')
})
