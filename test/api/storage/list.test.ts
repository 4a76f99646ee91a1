import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { upload } from '../../harness/storage.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

async function projectWith(names: readonly string[]) {
  const { id: project_id } = await server.client.projects.create({ body: { name: 'Files' } })
  const made = []
  for (const name of names) made.unshift(await upload(server.client, project_id, name, name))
  return { project_id, made }
}

describe('GET /projects/:project_id/storage/files', () => {
  it('lists newest first with type and hash, and the total number', async () => {
    await projectWith(['other'])
    const { project_id, made } = await projectWith(['a', 'b', 'c'])
    const { files, total } = await succeed(withKey(server, server.apiKey), 'storage.list', { project_id })
    expect(total).toBe(3)
    expect(files.map(({ content_type, sha256, ...file }) => file)).toEqual(made)
    for (const file of files)
      expect(file).toMatchObject({ content_type: 'text/plain', sha256: expect.stringMatching(/^[0-9a-f]{64}$/) })
    const last = made[0]
    await server.client.storage.delete({ params: { project_id, id: last?.id ?? '' } })
    expect((await server.client.storage.list({ params: { project_id } })).total).toBe(2)
  })

  it('lists page by page', async () => {
    const { project_id } = await projectWith(['a', 'b', 'c'])
    const pages = []
    for await (const page of server.client.storage.list.pages({ params: { project_id }, query: { limit: 2 } })) {
      pages.push(page.files.map(({ name }) => name))
    }
    expect(pages).toEqual([['c', 'b'], ['a']])
  })

  it.each([
    [{ limit: 1001 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
  ])('refuses %j', async (query, field) => {
    const { project_id } = await projectWith([])
    await expect(server.client.storage.list({ params: { project_id }, query })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field },
    })
  })

  it('answers the same 404 as for a project that never existed', async () => {
    const { project_id } = await projectWith(['mine'])
    await expectNotFound(server, 'storage.list', { project_id })
  })
})
