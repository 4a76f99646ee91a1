import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { newDatabase, takenSnapshot } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let database: Awaited<ReturnType<typeof newDatabase>>
beforeAll(async () => {
  server = await testServer()
  database = await newDatabase(server.client)
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)

describe('GET /projects/:project_id/databases/:database_id/snapshots', () => {
  it('lists newest first with sizes, page by page', async () => {
    const { params } = database
    expect(await succeed(caller(), 'snapshots.list', params)).toEqual({ snapshots: [] })
    const taken: string[] = []
    for (let n = 0; n < 2; n++) {
      taken.unshift(await takenSnapshot(server.client, params.project_id, params.database_id))
    }
    const { snapshots } = await succeed(caller(), 'snapshots.list', params)
    expect(snapshots).toEqual(
      taken.map((id) => ({
        id,
        database_id: params.database_id,
        status: 'available',
        size_bytes: expect.any(Number),
        failure: null,
        created_at: expect.stringMatching(/\.\d{3}Z$/),
      })),
    )
    for (const { size_bytes } of snapshots) expect(size_bytes).toBeGreaterThan(1e6)
    const pages = []
    for await (const page of server.client.snapshots.list.pages({ params, query: { limit: 1 } })) {
      pages.push(page.snapshots.map(({ id }) => id))
    }
    expect(pages).toEqual(taken.map((id) => [id]))
  })

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
  ])('refuses %j', async (query, field) => {
    const { params } = database
    await expect(server.client.snapshots.list({ params, query })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field },
    })
  })

  it('answers the same 404 as for a database that never existed', async () => {
    const { params } = database
    await expectNotFound(server, 'snapshots.list', params)
  })
})
