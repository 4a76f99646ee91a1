import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createAccounts } from '../../server/src/accounts/accounts.ts'
import { createApps } from '../../server/src/deployments/apps.ts'
import { createGitCache } from '../../server/src/deployments/git-cache.ts'
import type { DeployParts } from '../../server/src/deployments/parts.ts'
import { createReleases } from '../../server/src/deployments/releases.ts'
import { removeProject } from '../../server/src/deployments/remove-project.ts'
import { removeFolder } from '../../server/src/deployments/runner/folders.ts'
import { createDeploymentStore } from '../../server/src/deployments/store/store.ts'
import { createWork } from '../../server/src/deployments/work.ts'
import type { Gateway } from '../../server/src/gateway/gateway.ts'
import { openDatabase } from '../../server/src/platform/database.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { createSecretBox } from '../../server/src/platform/secrets/secret-box.ts'
import { testDatabase } from '../harness/database.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

it('removes all that a project has, again after it was broken off, and nothing of others', async () => {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const directory = cleanup.use(await temporaryDirectory())
  const logger = pino({ level: 'silent' })
  const { db, close } = openDatabase({ connectionString: database.url, max: 4 }, logger)
  cleanup.defer(close)
  const accountId = await createAccounts({ database: db }).ensureOperator()

  let isBroken = true
  const closed: string[] = []
  const gateway = {
    open: async () => undefined,
    close: async () => undefined,
    current: () => null,
    drain: async () => undefined,
  } as unknown as Gateway
  const folder = (name: string) => join(directory.path, name)
  const store = createDeploymentStore({ database: db })
  const config = { mode: 'ports', publicHost: 'localhost', ports: { from: 20_000, to: 29_999 } } as const
  const parts = {
    database: db,
    store,
    apps: createApps({ database: db, gateway, config }),
    releases: createReleases({
      limitsOf: async () => ({ memoryBytes: 512_000_000, cpus: 1 }),
      directory: folder('apps'),
      logDirectory: folder('logs'),
      uids: null,
      secrets: createSecretBox(Buffer.alloc(32)),
    }),
    runner: {
      remove: async (release: { directory: string }) => {
        if (isBroken) throw new Error('broken off')
        await removeFolder(release.directory)
      },
    },
    gateway,
    listening: { close: async (id: string) => void closed.push(id) },
    gitCache: createGitCache({ directory: folder('caches'), caches: { use: (_path, _signal, work) => work() } }),
    work: createWork(),
    appLock: (_: string, work: () => Promise<unknown>) => work(),
    settings: { drainMs: 0 },
  } as unknown as DeployParts

  /** A project with an app of two deployments, one running and one building, and all that they have on the disk. */
  const makeProject = async () => {
    const id = newId('project')
    await database.query(
      "insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'r', 'free', 'active')",
      [id, accountId],
    )
    const app = await db.transaction().execute(async (trx) => {
      const { app } = await parts.apps.findOrCreate(trx, { id, plan: 'free', mostApps: 5 }, 'web')
      for (const status of ['running', 'building']) {
        const row = await store.add(trx, {
          id: newId('deployment'),
          projectId: id,
          accountId,
          appId: app.id,
          gitUrl: 'https://example.com/a.git',
          branch: null,
          commit: null,
          variables: Buffer.alloc(0),
          gitToken: null,
        })
        await trx
          .withTables<{ deployments: { id: string; status: string } }>()
          .updateTable('deployments')
          .set({ status })
          .where('id', '=', row.id)
          .execute()
        await mkdir(parts.releases.placeOf(row).directory, { recursive: true })
        await mkdir(parts.releases.placeOf(row).logDirectory, { recursive: true })
      }
      return app
    })
    await mkdir(folder(join('caches', id)), { recursive: true })
    await writeFile(folder(join('caches', id, 'file')), '')
    return { id, appId: app.id }
  }
  const gone = await makeProject()
  const stays = await makeProject()
  const left = async () => ({
    apps: await readdir(folder('apps')),
    logs: await readdir(folder('logs')),
    caches: await readdir(folder('caches')),
  })

  await expect(removeProject(parts, gone.id)).rejects.toThrow('broken off')
  expect((await store.ofProject(gone.id)).map(({ status }) => status)).toEqual(['stopped', 'stopped'])
  isBroken = false
  await removeProject(parts, gone.id)
  await removeProject(parts, gone.id)

  expect(await store.ofProject(gone.id)).toEqual([])
  expect(await parts.apps.ofProject(gone.id)).toEqual([])
  expect(closed).toContain(gone.appId)
  expect(closed).not.toContain(stays.appId)
  expect(await left()).toEqual({ apps: [stays.appId], logs: [stays.appId], caches: [stays.id] })
  expect((await store.ofProject(stays.id)).map(({ status }) => status).sort()).toEqual(['building', 'running'])
})
