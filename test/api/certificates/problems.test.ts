import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../../server/src/platform/ids.ts'
import { expectNotFound } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /projects/:project_id/certificate-problems', () => {
  it('answers with the endangered certificates of the project whose owner was notified', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'in danger' } })
    const other = await server.client.projects.create({ body: { name: 'another' } })
    const failure = { code: 'caa', message: 'A CAA record allows other authorities alone.' }
    const insert = (name: string, alerted: boolean) =>
      server.database.query(
        `insert into certificates (id, account_id, project_id, names, source, failure, alerted_at)
         select $1, account_id, id, array[$2], 'automatic', $3, case when $4 then now() end from projects where id = $5`,
        [newId('certificate'), name, JSON.stringify(failure), alerted, id],
      )
    await insert('quiet.example.com', false)
    await insert('shop.example.com', true)
    const problemsOf = (project_id: string) => server.client.certificates.problems({ params: { project_id } })
    expect(await problemsOf(id)).toEqual({
      problems: [
        { id: expect.stringMatching(/^cert_/), names: ['shop.example.com'], app_id: null, expires_at: null, failure },
      ],
    })
    expect(await problemsOf(other.id)).toEqual({ problems: [] })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'mine' } })
    await expectNotFound(server, 'certificates.problems', { project_id: id })
  })
})
