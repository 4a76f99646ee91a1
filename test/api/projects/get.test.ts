import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /projects/:project_id', () => {
  it('answers with the resources of the project', async () => {
    const made = await server.client.projects.create({ body: { name: 'read me', plan: 'pro' } })
    expect(await server.client.projects.get({ params: { project_id: made.id } })).toEqual({
      ...made,
      resources: { deployments: 0, databases: 0, storage_gb: 0 },
    })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'mine' } })
    await expectNotFound(server, 'projects.get', { project_id: id })
  })
})
