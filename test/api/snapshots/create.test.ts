import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expectNotFound, withKey } from '../../harness/conformance.ts'
import { connect, newDatabase, query, takenSnapshot } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

/** Keeps snapshots of a database from becoming available until the returned function is called. */
async function holdSnapshots(databaseId: string): Promise<() => Promise<void>> {
  const { query } = server.database
  await query(`create function wait_for_test() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock(hashtext(old.database_id)); return new; end $$`)
  await query('select pg_advisory_lock(hashtext($1))', [databaseId])
  await query(`create trigger wait_for_test before update on snapshots
    for each row when (old.database_id = '${databaseId}') execute function wait_for_test()`)
  return async () => {
    await query('select pg_advisory_unlock(hashtext($1))', [databaseId])
    await query('drop function wait_for_test cascade')
  }
}

const caller = () => withKey(server, server.apiKey)

describe('POST /projects/:project_id/databases/:database_id/snapshots', () => {
  it('answers 201 creating, with the location of the snapshot', async () => {
    const { params } = await newDatabase(server.client)
    const made = await ask(caller(), 'snapshots.create', params)
    expect(made.status).toBe(201)
    const body = JSON.parse(made.text)
    expect(body).toEqual({
      id: expect.stringMatching(/^snap_[0-7][0-9a-hjkmnp-tv-z]{25}$/),
      database_id: params.database_id,
      status: 'creating',
      size_bytes: null,
      failure: null,
      created_at: expect.stringMatching(/\.\d{3}Z$/),
    })
    const path = `/v1/projects/${params.project_id}/databases/${params.database_id}/snapshots/${body.id}`
    expect(made.headers.get('location')).toBe(path)
  })

  it('ends the connections of the database, and accepts new ones when it is done', async () => {
    const { connection_string, params } = await newDatabase(server.client)
    await using open = await connect(connection_string)
    const ended = new Promise((done) => open.once('end', done))
    await takenSnapshot(server.client, params.project_id, params.database_id)
    await ended
    expect(await query(connection_string, 'select 1')).toEqual([[1]])
  })

  it('removes the oldest beyond five', async () => {
    const { params } = await newDatabase(server.client)
    const taken: string[] = []
    for (let n = 0; n < 6; n++) taken.push(await takenSnapshot(server.client, params.project_id, params.database_id))
    const { snapshots } = await server.client.snapshots.list({ params })
    expect(snapshots.map((each) => each.id)).toEqual(taken.slice(1).reverse())
  })

  it('refuses a second concurrent snapshot, and a snapshot of a deleted database', async () => {
    const { params } = await newDatabase(server.client)
    const take = () => server.client.snapshots.create({ params })
    // The first must not be ready before the second is asked for.
    const endHold = await holdSnapshots(params.database_id)
    const taken = await Promise.allSettled([take(), take()])
    await endHold()
    expect(taken.filter(({ status }) => status === 'rejected')).toMatchObject([
      { reason: { code: 'invalid_request', details: { field: 'database_id' } } },
    ])
    await server.client.databases.delete({ params: { project_id: params.project_id, id: params.database_id } })
    await expect(take()).rejects.toMatchObject({ code: 'invalid_request' })
  })

  it('answers the same 404 as for a database that never existed', async () => {
    const { params } = await newDatabase(server.client)
    await expectNotFound(server, 'snapshots.create', params)
    expect((await server.client.snapshots.list({ params })).snapshots).toEqual([])
  })
})
