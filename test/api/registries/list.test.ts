import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server?.[Symbol.asyncDispose]())

describe('GET /projects/:project_id/registries', () => {
  it('lists only the registries of the project, newest first, page by page, without passwords', async () => {
    const project = async (name: string) => (await server.client.projects.create({ body: { name } })).id
    const [project_id, other] = [await project('p'), await project('other')]
    const registries = ['registry.example', 'docker.io', 'localhost:5000']
    for (const registry of registries) {
      const body = { registry, username: 'deploy', password: 'nobody reads this' }
      await server.client.registries.set({ params: { project_id }, body })
    }
    const caller = withKey(server, server.apiKey)
    const listed = await succeed(caller, 'registries.list', { project_id })
    expect(listed.registries.map(({ registry }) => registry)).toEqual(registries.toReversed())
    expect(JSON.stringify(listed)).not.toContain('nobody reads this')
    expect(await succeed(caller, 'registries.list', { project_id: other })).toEqual({ registries: [] })
    const pages = []
    for await (const page of server.client.registries.list.pages({ params: { project_id }, query: { limit: 2 } })) {
      pages.push(page.registries.length)
    }
    expect(pages).toEqual([2, 1])
    await expectNotFound(server, 'registries.list', { project_id })
  })
})
