import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../../server/src/platform/ids.ts'
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
      certificate_problems: [],
    })
  })

  it('answers with its certificates that are in danger', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'in danger' } })
    const failure = { code: 'caa', message: 'A CAA record allows other authorities alone.' }
    const insert = (name: string, alerted: boolean) =>
      server.database.query(
        `insert into certificates (id, account_id, project_id, names, source, failure, alerted_at)
         select $1, account_id, id, array[$2], 'automatic', $3, case when $4 then now() end from projects where id = $5`,
        [newId('certificate'), name, JSON.stringify(failure), alerted, id],
      )
    await insert('quiet.example.com', false)
    await insert('shop.example.com', true)
    const { certificate_problems } = await server.client.projects.get({ params: { project_id: id } })
    expect(certificate_problems).toEqual([
      { id: expect.stringMatching(/^cert_/), names: ['shop.example.com'], app_id: null, expires_at: null, failure },
    ])
  })

  it('answers 404 with the body of an id that never existed', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'mine' } })
    await expectNotFound(server, 'projects.get', { project_id: id })
  })
})
