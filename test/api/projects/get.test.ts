import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /projects/:id', () => {
  it('answers with the resources of the project', async () => {
    const made = await server.client.projects.create({ body: { name: 'read me', plan: 'pro' } })
    expect(await server.client.projects.get({ params: { project_id: made.id } })).toEqual({
      ...made,
      resources: { deployments: 0, databases: 0, storage_gb: 0 },
    })
  })

  it("answers for another account's project as for one that never existed", async () => {
    const made = await server.client.projects.create({ body: { name: 'mine' } })
    const other = await server.accounts.create({ name: 'other', plan: 'free' })
    const key = await server.key({ accountId: other.id })
    const ask = async (id: string) => {
      const response = await fetch(`${server.baseUrl}/projects/${id}`, { headers: { authorization: `Bearer ${key}` } })
      return { status: response.status, body: await response.text() }
    }
    const answers = await Promise.all([made.id, 'proj_01h455vb4pex5vsknk084sn02q', 'nonsense', '%00'].map(ask))
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect(answers[0]?.status).toBe(404)
  })
})
