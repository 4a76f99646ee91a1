import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { createAppStore } from '../../../server/src/features/apps/apps.ts'
import { createDeploymentLocks } from '../../../server/src/features/deployments/lock.ts'
import { createDeploymentStore } from '../../../server/src/features/deployments/rows.ts'
import { createRemoveProject, createTeardown } from '../../../server/src/features/deployments/teardown.ts'
import { createLogStore } from '../../../server/src/logs/log-store.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { removeFolder } from '../../../server/src/platform/disk/folders.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import type { ReleaseRef } from '../../../server/src/runtimes/runtime.ts'
import { createGitCache } from '../../../server/src/sources/git-cache.ts'
import { testDatabase } from '../../harness/database.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it('removing a project removes everything in it, even after a failed attempt, and nothing else', async () => {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const directory = cleanup.use(await temporaryDirectory())
  const { db, close } = openDatabase({ connectionString: database.url, max: 4 }, pino({ level: 'silent' }))
  cleanup.defer(close)
  const accountId = await createAccountStore({ database: db }).ensureOperator()

  let isBroken = true
  const closed: string[] = []
  const folder = (...names: string[]) => join(directory.path, ...names)
  const config = { mode: 'ports', publicHost: 'localhost', ports: { from: 20_000, to: 29_999 } } as const
  const apps = createAppStore({ database: db, isPortFree: async () => true, config })
  const store = createDeploymentStore({ database: db, apps })
  const locks = createDeploymentLocks()
  const logs = createLogStore({ directory: folder('logs') })
  const sources = createGitCache({
    directory: folder('caches'),
    user: null,
    caches: { use: (_path, _signal, work) => work() },
  })
  const releases = {
    remove: async ({ id, appId }: ReleaseRef) => {
      if (isBroken) throw new Error('the disk is away')
      await removeFolder(folder('apps', appId, id))
    },
    removeApp: (appId: string) => removeFolder(folder('apps', appId)),
  }
  const teardown = createTeardown({
    store,
    locks,
    instances: { halt: async () => undefined, stop: async () => undefined, remove: releases.remove },
    routes: { drain: async () => null },
  })
  const removeProject = createRemoveProject({
    database: db,
    store,
    apps,
    locks,
    sources: [sources],
    logs,
    teardown,
    removeApp: async (appId) => {
      await releases.removeApp(appId)
      await logs.removeApp(appId)
    },
    closeAddress: async (appId) => void closed.push(appId),
  })

  /** Makes a project with an app of two deployments, one running and one building, and their files on the disk. */
  const makeProject = async () => {
    const id = newId('project')
    await database.query(
      "insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'r', 'free', 'active')",
      [id, accountId],
    )
    const app = await db.transaction().execute(async (trx) => {
      const { app } = await apps.findOrCreate(trx, { id }, 'web')
      for (const status of ['running', 'building']) {
        const row = await store.requests.add(trx, {
          id: newId('deployment'),
          projectId: id,
          accountId,
          appId: app.id,
          gitUrl: 'https://example.com/a.git',
          sourceId: null,
          image: null,
          imageDigest: null,
          fromId: null,
          commitDetails: null,
          branch: null,
          commit: null,
          root: null,
          trigger: { kind: 'key', name: 'a', repository: null, run_url: null, actor: null, event: null },
          variables: Buffer.alloc(0),
          origins: { given: [], plain: [] },
          gitToken: null,
          runtime: 'process',
        })
        await trx
          .withTables<{ deployments: { id: string; status: string } }>()
          .updateTable('deployments')
          .set({ status })
          .where('id', '=', row.id)
          .execute()
        await mkdir(folder('apps', app.id, row.id), { recursive: true })
        await (await logs.open({ appId: app.id, deploymentId: row.id, stream: 'build' })).close()
      }
      return app
    })
    await mkdir(folder('caches', id), { recursive: true })
    await writeFile(folder('caches', id, 'file'), '')
    return { id, appId: app.id }
  }
  const removed = await makeProject()
  const kept = await makeProject()
  const left = async () => ({
    apps: await readdir(folder('apps')),
    logs: await readdir(folder('logs')),
    caches: await readdir(folder('caches')),
  })

  await expect(removeProject(removed.id)).rejects.toThrow('the disk is away')
  expect((await store.ofProjects.ofProject(removed.id)).map(({ status }) => status)).toEqual(['stopped', 'stopped'])
  isBroken = false
  await removeProject(removed.id)
  await removeProject(removed.id)

  expect(await store.ofProjects.ofProject(removed.id)).toEqual([])
  expect(await apps.ofProject(removed.id)).toEqual([])
  expect(closed).toContain(removed.appId)
  expect(closed).not.toContain(kept.appId)
  expect(await left()).toEqual({ apps: [kept.appId], logs: [kept.appId], caches: [kept.id] })
  const statuses = (await store.ofProjects.ofProject(kept.id)).map(({ status }) => status)
  expect(statuses.sort()).toEqual(['building', 'running'])
})
