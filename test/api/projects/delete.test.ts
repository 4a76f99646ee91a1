import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const gone = (id: string) =>
  vi.waitFor(
    async () => {
      const { projects } = await server.client.projects.list()
      expect(projects.map((project) => project.id)).not.toContain(id)
    },
    { timeout: 60_000, interval: 50 },
  )

describe('DELETE /projects/:project_id', () => {
  it('stops and removes its apps, and touches no other project', async () => {
    await using repo = await repository(nodeApp('hello'))
    const [doomed, kept] = await Promise.all(
      ['doomed', 'kept'].map((name) => server.client.projects.create({ body: { name } })),
    )
    if (doomed === undefined || kept === undefined) throw new Error('there are no projects')
    const app = await deployAndSettle(server.client, doomed.id, { name: 'web', git_url: repo.url })
    const other = await deployAndSettle(server.client, kept.id, { name: 'web', git_url: repo.url })
    await server.client.webhooks.create({ body: { url: 'http://127.0.0.1:9/', project_id: doomed.id } })
    expect(await server.client.projects.delete({ params: { project_id: doomed.id } })).toBeUndefined()
    await gone(doomed.id)
    await expect(fetch(app.url)).rejects.toThrow()
    expect(await (await fetch(other.url)).text()).toContain('hello')
    const { webhooks } = await server.client.webhooks.list()
    expect(webhooks.filter(({ project_id }) => project_id === doomed.id)).toEqual([])
    const releases = (await releasesOnDisk(server.dataDirectory)).filter((path) => path.includes(app.app_id))
    expect(releases).toEqual([])
    const rows = await server.database.query('select id from deployments where project_id = $1', [doomed.id])
    expect(rows).toEqual([])
  })

  it('hides the project at once, and lists it as deleting until it is removed', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'p' } })
    await server.client.projects.delete({ params: { project_id: id } })
    for (const attempt of [
      () => server.client.projects.get({ params: { project_id: id } }),
      () => server.client.deployments.list({ params: { project_id: id } }),
      () => server.client.projects.update({ params: { project_id: id }, body: { name: 'q' } }),
    ]) {
      await expect(attempt()).rejects.toMatchObject({ code: 'not_found' })
    }
    const shown = (await server.client.projects.list()).projects.find((project) => project.id === id)
    expect([undefined, 'deleting']).toContain(shown?.status)
    await gone(id)
  })

  it('is refused while the project has files, which remain', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'with files' } })
    const body = new FormData()
    body.append('file', new Blob(['content']), 'a.txt')
    const file = await server.client.storage.upload({ params: { project_id: id }, body })
    const deleting = server.client.projects.delete({ params: { project_id: id } })
    await expect(deleting).rejects.toMatchObject({ code: 'invalid_request', details: { resources: { databases: 0 } } })
    expect(await (await fetch(file.url)).text()).toBe('content')
    await server.client.storage.delete({ params: { project_id: id, id: file.id } })
    await server.client.projects.delete({ params: { project_id: id } })
    await gone(id)
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'mine' } })
    await expectNotFound(server, 'projects.delete', { project_id: id })
    expect(await server.client.projects.get({ params: { project_id: id } })).toMatchObject({ name: 'mine' })
  })
})
