import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'

/** What Biome says of a file that would stand at `path` with this one import. */
function lint(path: string, imported: string): string {
  const source = `import { thing } from '${imported}'\n\nexport const other = thing\n`
  const { stdout, stderr } = spawnSync('node_modules/.bin/biome', ['lint', `--stdin-file-path=${path}`], {
    input: source,
    encoding: 'utf8',
  })
  return stdout + stderr
}

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
  ['server/src/deployments/steps/new.ts', '../../webhooks/outbox.ts'],
  ['server/src/webhooks/new.ts', '../server.ts'],
  ['server/src/server.ts', './cli.ts'],
  ['action/src/new.ts', '../../server/src/contract/operations.ts'],
  ['action/src/new.ts', '@fairlead/receiver'],
  ['demo/new.ts', '../server/src/server.ts'],
])('%s may not import %s', (path, imported) => {
  expect(lint(path, imported)).toContain('noRestrictedImports')
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
])('%s may import %s', (path, imported) => {
  expect(lint(path, imported)).not.toContain('noRestrictedImports')
})

it('reads the environment in the configuration alone', () => {
  const { stdout, stderr } = spawnSync(
    'node_modules/.bin/biome',
    ['lint', '--stdin-file-path=server/src/http/new.ts'],
    {
      input: 'export const port = process.env.PORT\n',
      encoding: 'utf8',
    },
  )
  expect(stdout + stderr).toContain('noProcessEnv')
})
