import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, createdDatabase, query, takenSnapshot, untilDatabase } from '../harness/databases.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  // What is deleted is gone at once.
  server = await testServer({ FAIRLEAD_DATABASE_RETENTION_DAYS: '0' })
})
afterAll(() => server[Symbol.asyncDispose]())

const newProject = async () => (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id

describe('a snapshot', () => {
  it('is restored into the same database: what was written since is gone, the connection string stays', async () => {
    const project = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project)
    await query(connection_string, 'create table notes as select 1 as n')
    const snapshot = await takenSnapshot(server.client, project, id)
    await query(connection_string, 'update notes set n = 2; create table later ()')
    const params = { project_id: project, database_id: id, id: snapshot }
    expect(await server.client.snapshots.restore({ params })).toMatchObject({ id, status: 'provisioning' })
    await untilDatabase(server.client, project, id)
    expect(await query(connection_string, 'select n from notes')).toEqual([[1]])
    await expect(query(connection_string, 'select from later')).rejects.toMatchObject({ code: '42P01' })
    // It serves any number of times.
    await query(connection_string, 'update notes set n = 3')
    await server.client.snapshots.restore({ params })
    await untilDatabase(server.client, project, id)
    expect(await query(connection_string, 'select n from notes')).toEqual([[1]])
  })

  it('is restored into a new database, whose role owns everything in it and nothing elsewhere', async () => {
    const project = await newProject()
    const source = await createdDatabase(server.client, project)
    await query(
      source.connection_string,
      `create schema s; create table s.notes as select 1 as n; create function public.f() returns int return 7;
       create type public.mood as enum ('fine'); alter default privileges grant select on tables to public`,
    )
    const snapshot = await takenSnapshot(server.client, project, source.id)
    const copy = await createdDatabase(server.client, project, { name: 'copy', snapshot_id: snapshot })
    const { connection_string } = copy
    expect(await query(connection_string, 'select n, f() from s.notes')).toEqual([[1, 7]])
    await query(connection_string, "alter table s.notes add column m mood default 'fine'; drop function f()")
    expect(await query(connection_string, 'select pg_get_userbyid(datdba) = datname from pg_database')).toContainEqual([
      true,
    ])
    // The source goes on as it was, and its role lost nothing.
    await query(source.connection_string, 'insert into s.notes values (2); drop function f()')

    // The source goes for good, with its role, although the copy was made from it.
    await server.client.databases.delete({ params: { project_id: project, id: source.id } })
    const gone = untilDatabase(server.client, project, source.id, () => false)
    await expect(gone).rejects.toMatchObject({ code: 'not_found' })
    expect(await query(connection_string, 'select n, m from s.notes')).toEqual([[1, 'fine']])
  })

  it('ends the connections of its database for a moment, and they come back', async () => {
    const project = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project)
    await using open = await connect(connection_string)
    const ended = new Promise((done) => open.once('end', done))
    await takenSnapshot(server.client, project, id)
    await ended
    expect(await query(connection_string, 'select 1')).toEqual([[1]])
  })

  it('is listed with its size, and deleted', async () => {
    const project = await newProject()
    const { id } = await createdDatabase(server.client, project)
    const snapshot = await takenSnapshot(server.client, project, id)
    const params = { project_id: project, database_id: id }
    const { snapshots } = await server.client.snapshots.list({ params })
    expect(snapshots).toMatchObject([{ id: snapshot, database_id: id, status: 'available', failure: null }])
    expect(snapshots[0]?.size_bytes).toBeGreaterThan(1e6)
    await server.client.snapshots.delete({ params: { ...params, id: snapshot } })
    expect((await server.client.snapshots.list({ params })).snapshots).toEqual([])
    await expect(server.client.snapshots.restore({ params: { ...params, id: snapshot } })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  it('gives way when there are more than five', async () => {
    const project = await newProject()
    const { id } = await createdDatabase(server.client, project)
    const taken: string[] = []
    for (let n = 0; n < 6; n++) taken.push(await takenSnapshot(server.client, project, id))
    const { snapshots } = await server.client.snapshots.list({ params: { project_id: project, database_id: id } })
    expect(snapshots.map((each) => each.id)).toEqual(taken.slice(1).reverse())
  })

  it("is out of reach for another project's databases", async () => {
    const project = await newProject()
    const { id } = await createdDatabase(server.client, project)
    const snapshot = await takenSnapshot(server.client, project, id)
    const other = await newProject()
    const creating = server.client.databases.create({
      params: { project_id: other },
      body: { name: 'x', snapshot_id: snapshot },
    })
    await expect(creating).rejects.toMatchObject({ details: { field: 'snapshot_id' } })
    const params = { project_id: other, database_id: id }
    await expect(server.client.snapshots.list({ params })).rejects.toMatchObject({ code: 'not_found' })
    await expect(server.client.snapshots.create({ params })).rejects.toMatchObject({ code: 'not_found' })
  })
})
