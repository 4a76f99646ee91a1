import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'
import { upload } from '../../harness/storage.ts'

let server: TestServer
let project_id: string
beforeAll(async () => {
  server = await testServer()
  project_id = (await server.client.projects.create({ body: { name: 'Files' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /projects/:project_id/storage/files/:id', () => {
  it('answers with the same fields as the upload, and with type and hash', async () => {
    const made = await upload(server.client, project_id, 'report.txt', 'hello')
    expect(await succeed(withKey(server, server.apiKey), 'storage.get', { project_id, id: made.id })).toEqual({
      ...made,
      content_type: 'text/plain',
      sha256: createHash('sha256').update('hello').digest('hex'),
    })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await upload(server.client, project_id, 'mine.txt', 'x')
    await expectNotFound(server, 'storage.get', { project_id, id })
  })
})
