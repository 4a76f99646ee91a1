import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /usage', () => {
  it('answers with the resources of each project that the key may see, like the projects themselves', async () => {
    const made: string[] = []
    for (const name of ['one', 'two', 'three'])
      made.unshift((await server.client.projects.create({ body: { name } })).id)
    const [newest = '', second = ''] = made
    const form = new FormData()
    form.append('file', new Blob(['12345']), 'a.txt')
    await server.client.storage.upload({ params: { project_id: second }, body: form })
    const { usage } = await succeed(withKey(server, server.apiKey), 'projects.usage', {})
    expect(usage.map(({ id }) => id)).toEqual(made)
    for (const { id, resources } of usage) {
      expect(resources).toEqual((await server.client.projects.get({ params: { project_id: id } })).resources)
    }
    expect(usage[1]?.resources).toEqual({ deployments: 0, databases: 0, storage_gb: 5e-9 })

    const bound = await server.key({ projectIds: [newest] })
    expect((await succeed(withKey(server, bound), 'projects.usage', {})).usage.map(({ id }) => id)).toEqual([newest])
    const account = await server.accounts.create({ name: 'other', plan: 'pro' })
    const foreign = await server.key({ accountId: account.id })
    expect((await succeed(withKey(server, foreign), 'projects.usage', {})).usage).toEqual([])
  })

  it('comes in pages', async () => {
    const pages = server.client.projects.usage.pages({ query: { limit: 2 } })
    const sizes: number[] = []
    for await (const { usage } of pages) sizes.push(usage.length)
    expect(sizes).toEqual([2, 1])
  })
})
