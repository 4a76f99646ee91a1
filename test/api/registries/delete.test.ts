import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server?.[Symbol.asyncDispose]())

describe('DELETE /projects/:project_id/registries/:id', () => {
  it('deletes only this project’s credentials', async () => {
    const body = { registry: 'registry.example', username: 'deploy', password: 'secret' }
    const make = async (name: string) => {
      const { id: project_id } = await server.client.projects.create({ body: { name } })
      return { project_id, id: (await server.client.registries.set({ params: { project_id }, body })).id }
    }
    const [own, other] = [await make('own'), await make('other')]
    const caller = withKey(server, server.apiKey)
    await expectNotFound(server, 'registries.delete', own)
    const foreign = server.client.registries.delete({ params: { ...own, id: other.id } })
    await expect(foreign).rejects.toMatchObject({ code: 'not_found' })
    await succeed(caller, 'registries.delete', own)
    await expect(server.client.registries.delete({ params: own })).rejects.toMatchObject({ code: 'not_found' })
    const { project_id } = other
    const { registries } = await server.client.registries.list({ params: { project_id } })
    expect(registries.map(({ id }) => id)).toEqual([other.id])
  })
})
