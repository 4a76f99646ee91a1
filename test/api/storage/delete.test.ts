import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { filesOnDisk, upload } from '../../harness/storage.ts'

let server: TestServer
let project_id: string
beforeAll(async () => {
  server = await testServer()
  project_id = (await server.client.projects.create({ body: { name: 'Files' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

describe('DELETE /projects/:project_id/storage/files/:id', () => {
  it('removes the file, its address and its bytes', async () => {
    const { id, url } = await upload(server.client, project_id, 'gone.txt', 'x')
    expect(await filesOnDisk(server.dataDirectory)).toContain(id)
    await succeed(withKey(server, server.apiKey), 'storage.delete', { project_id, id })
    expect((await fetch(url)).status).toBe(404)
    const params = { project_id, id }
    for (const ask of [server.client.storage.get, server.client.storage.delete]) {
      await expect(ask({ params })).rejects.toMatchObject({ code: 'not_found' })
    }
    await expect.poll(() => filesOnDisk(server.dataDirectory)).not.toContain(id)
    const pending = () => server.database.query('select from pending_files where file_id = $1', [id])
    await expect.poll(pending).toEqual([])
  })

  it('answers the same 404 as for an id that never existed, and the file stays', async () => {
    const { id, url } = await upload(server.client, project_id, 'mine.txt', 'mine')
    await expectNotFound(server, 'storage.delete', { project_id, id })
    expect(await (await fetch(url)).text()).toBe('mine')
  })
})
