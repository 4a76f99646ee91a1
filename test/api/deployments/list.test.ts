import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const git_url = 'https://127.0.0.1:1/a.git'

async function projectWith(names: readonly string[]) {
  const { id: project_id } = await server.client.projects.create({ body: { name: 'listed' } })
  const made = []
  for (const name of names) {
    made.unshift(await server.client.deployments.create({ params: { project_id }, body: { name, git_url } }))
  }
  return { project_id, made }
}

describe('GET /projects/:project_id/deployments', () => {
  it('lists newest first with exactly the specified fields', async () => {
    const { project_id, made } = await projectWith(['a', 'b'])
    const { deployments } = await succeed(withKey(server, server.apiKey), 'deployments.list', { project_id })
    expect(deployments.map(({ status, ...others }) => others)).toEqual(made.map(({ status, ...others }) => others))
    expect(Object.keys(deployments[0] ?? {}).sort()).toEqual(['created_at', 'id', 'name', 'status', 'url'])
    const { resources } = await server.client.projects.get({ params: { project_id } })
    expect(resources.deployments).toBe(2)
  })

  it('lists only the deployments of the project, page by page', async () => {
    await projectWith(['other'])
    const { project_id, made } = await projectWith(['a', 'b', 'c'])
    const pages = []
    for await (const page of server.client.deployments.list.pages({ params: { project_id }, query: { limit: 2 } })) {
      pages.push(page.deployments.map(({ id }) => id))
    }
    const ids = made.map(({ id }) => id)
    expect(pages).toEqual([ids.slice(0, 2), ids.slice(2)])
  })

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
  ])('refuses %j', async (query, field) => {
    const { project_id } = await projectWith([])
    await expect(server.client.deployments.list({ params: { project_id }, query })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field },
    })
  })

  it('answers the same 404 as for a project that never existed', async () => {
    const { project_id } = await projectWith([])
    await expectNotFound(server, 'deployments.list', { project_id })
  })
})
