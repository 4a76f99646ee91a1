import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { connect, createdDatabase, query, takenSnapshot, untilDatabase } from '../../harness/databases.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

let server: OwnServer
beforeAll(async () => {
  // Deleted databases are removed at once.
  server = await ownServer({ FAIRLEAD_DATABASE_RETENTION_DAYS: '0' })
})
afterAll(() => server[Symbol.asyncDispose]())

const newProject = async (plan = 'enterprise') =>
  (await server.client.projects.create({ body: { name: 'p', plan } })).id

const post = (path: string, body: unknown) =>
  fetch(`${server.baseUrl}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

describe('POST /projects/:project_id/databases', () => {
  it('answers 201 with exactly the specified fields and the defaults', async () => {
    const project = await newProject()
    const response = await post(`/projects/${project}/databases`, { name: ' Main ' })
    expect(response.status).toBe(201)
    const body = (await response.json()) as Record<string, string>
    expect(Object.keys(body).sort()).toEqual(['connection_string', 'id', 'name', 'status', 'type', 'version'])
    expect(body).toMatchObject({ name: 'Main', type: 'postgresql', version: '18', status: 'provisioning' })
    expect(body['id']).toMatch(/^db_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    expect(response.headers.get('location')).toBe(`/v1/projects/${project}/databases/${body['id']}`)
    const address = new URL(body['connection_string'] ?? '')
    expect(address.protocol).toBe('postgresql:')
    expect(address.hostname).toBe('127.0.0.1')
    // At least 192 bits, at six bits per character.
    expect(address.password).toMatch(/^[\w-]{32,}$/)
    await untilDatabase(server.client, project, body['id'] ?? '')
  })

  it('gives an available database to a client', async () => {
    const project = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project)
    await using client = await connect(connection_string)
    await client.query('create table notes (id serial primary key, text text)')
    await client.query("insert into notes (text) values ('hello')")
    expect((await client.query('select text from notes')).rows).toEqual([{ text: 'hello' }])
    expect((await client.query('create extension pg_trgm')).command).toBe('CREATE')
    await client.query('drop schema public cascade; create schema public')
    // An answer has no size while the engine is busy.
    const detail = await untilDatabase(server.client, project, id, ({ size_bytes }) => size_bytes !== null)
    expect(detail).toMatchObject({
      id,
      project_id: project,
      name: 'db',
      type: 'postgresql',
      version: '18',
      plan: 'starter',
      access: 'local',
      status: 'available',
      connections: 1,
      max_connections: 22,
      max_size_bytes: 5e9,
      read_only: false,
      failure: null,
      restorable_until: null,
    })
    expect(detail.size_bytes).toBeGreaterThan(1e6)
    expect((await server.client.projects.get({ params: { project_id: project } })).resources.databases).toBe(1)
  })

  it('announces the database once, when it is available', async () => {
    const project = await newProject()
    const { id } = await createdDatabase(server.client, project)
    const events = await server.database.query<{ body: string }>(
      "select body from events where project_id = $1 and type like 'database.%'",
      [project],
    )
    expect(events.map(({ body }) => JSON.parse(body))).toEqual([
      {
        event: 'database.available',
        timestamp: expect.stringMatching(/Z$/),
        data: { database_id: id, project_id: project },
      },
    ])
  })

  it.each([
    ['no name', {}, 'name', 'is required'],
    ['another type', { name: 'a', type: 'mysql' }, 'type', 'must be postgresql'],
    ['an unknown version', { name: 'a', version: '9.6' }, 'version', 'must be one of: 15, 16, 17, 18'],
    ['a version that is a number', { name: 'a', version: 18 }, 'version', 'must be a string, such as "18"'],
    ['an unknown plan', { name: 'a', plan: 'gold' }, 'plan', 'must be one of: free, starter, pro, enterprise'],
    [
      'an unknown snapshot',
      { name: 'a', snapshot_id: 'x' },
      'snapshot_id',
      'there is no such snapshot in this project',
    ],
  ])('refuses %s', async (_, body, field, message) => {
    const response = await post(`/projects/${await newProject()}/databases`, body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      error: { code: 'invalid_request', details: { field, errors: [{ field, message }] } },
    })
  })

  it('allows as many as the project’s plan, even in concurrent requests', async () => {
    const project = await newProject('free')
    const asked = await Promise.allSettled(
      [1, 2, 3, 4].map((n) =>
        server.client.databases.create({ params: { project_id: project }, body: { name: `db ${n}`, plan: 'free' } }),
      ),
    )
    expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
    expect(asked.filter(({ status }) => status === 'rejected')[0]).toMatchObject({
      reason: { code: 'invalid_request', details: { max_databases: 2 } },
    })
  })

  it('stores no readable password', async () => {
    const { connection_string } = await createdDatabase(server.client, await newProject())
    const rows = await server.database.query<{ row: string }>('select databases::text as row from databases')
    const { password } = new URL(connection_string)
    expect(rows.some(({ row }) => row.includes(password))).toBe(false)
    expect(JSON.stringify(server.log)).not.toContain(password)
  })

  it('uses meaningless names, because every user of its PostgreSQL sees all names', async () => {
    const project = await newProject()
    const [{ connection_string, id }, neighbour] = await Promise.all([
      createdDatabase(server.client, project),
      createdDatabase(server.client, await newProject()),
    ])
    const snapshot = await takenSnapshot(server.client, project, id)
    const { username, pathname } = new URL(neighbour.connection_string)
    expect(username).toMatch(/^[a-z]{26}$/)
    expect(pathname).toBe(`/${username}`)
    await using client = await connect(connection_string)
    const shown = async (text: string) => (await client.query({ text, rowMode: 'array' })).rows.flat()
    const roles = await shown('select pg_get_userbyid(o::oid) from generate_series(1, 20000) o')
    const databases = await shown('select datname from pg_database')
    expect(roles).toContain(username)
    expect(databases).toContain(username)
    for (const table of ['pg_stat_activity', 'pg_stat_database', 'pg_roles', 'pg_locks']) {
      expect(await shown(`select t::text from ${table} t`), table).not.toContainEqual(expect.stringContaining(username))
    }
    // Neither the ids of this server's databases, snapshots and projects, nor parts of the ids.
    const known = await server.database.query<{ id: string }>(
      'select id from databases union select id from snapshots union select id from projects',
    )
    expect(known.map((row) => row.id)).toContain(snapshot)
    for (const { id: other } of known) {
      expect([...roles, ...databases].filter((name) => name.includes(other.split('_')[1] ?? other))).toEqual([])
    }
  })

  it('starts with the content of a snapshot; its role owns everything in it and nothing elsewhere', async () => {
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
    // The source is unchanged, and its role still owns everything in it.
    await query(source.connection_string, 'insert into s.notes values (2); drop function f()')

    // The source and its role can be removed although a copy of it exists.
    await server.client.databases.delete({ params: { project_id: project, id: source.id } })
    const gone = untilDatabase(server.client, project, source.id, () => false)
    await expect(gone).rejects.toMatchObject({ code: 'not_found' })
    expect(await query(connection_string, 'select n, m from s.notes')).toEqual([[1, 'fine']])
  })

  it("refuses a snapshot of another project's database", async () => {
    const project = await newProject()
    const { id } = await createdDatabase(server.client, project)
    const snapshot = await takenSnapshot(server.client, project, id)
    const creating = server.client.databases.create({
      params: { project_id: await newProject() },
      body: { name: 'x', snapshot_id: snapshot },
    })
    await expect(creating).rejects.toMatchObject({ details: { field: 'snapshot_id' } })
  })

  it('refuses a version that differs from the snapshot’s', async () => {
    const project = await newProject()
    const { id } = await createdDatabase(server.client, project)
    const body = { name: 'x', snapshot_id: await takenSnapshot(server.client, project, id), version: '17' }
    await expect(server.client.databases.create({ params: { project_id: project }, body })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'version' },
    })
  })

  it('answers the same 404 as for a project that never existed', async () => {
    await expectNotFound(server, 'databases.create', { project_id: await newProject() })
  })
})
