import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, createdDatabase, query, untilDatabase } from '../harness/databases.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
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
    // 192 bits or more, in six bits a character.
    expect(address.password).toMatch(/^[\w-]{32,}$/)
    await untilDatabase(server.client, project, body['id'] ?? '')
  })

  it('gives a database that a client can use', async () => {
    const project = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project)
    await using client = await connect(connection_string)
    await client.query('create table notes (id serial primary key, text text)')
    await client.query("insert into notes (text) values ('hello')")
    expect((await client.query('select text from notes')).rows).toEqual([{ text: 'hello' }])
    expect((await client.query('create extension pg_trgm')).command).toBe('CREATE')
    await client.query('drop schema public cascade; create schema public')
    const detail = await server.client.databases.get({ params: { project_id: project, id } })
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

  it('announces the database once, when it can be used', async () => {
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
    ['a version that there is not', { name: 'a', version: '9.6' }, 'version', 'must be one of: 15, 16, 17, 18'],
    ['a version that is a number', { name: 'a', version: 18 }, 'version', 'must be a string, such as "18"'],
    ['a plan that there is not', { name: 'a', plan: 'gold' }, 'plan', 'must be one of: free, starter, pro, enterprise'],
    [
      'a snapshot that there is not',
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

  it('allows as many as the plan of the project, also when they are asked for at once', async () => {
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

  it('keeps no password that can be read', async () => {
    const { connection_string } = await createdDatabase(server.client, await newProject())
    const rows = await server.database.query<{ row: string }>('select databases::text as row from databases')
    const { password } = new URL(connection_string)
    expect(rows.some(({ row }) => row.includes(password))).toBe(false)
    expect(JSON.stringify(server.log)).not.toContain(password)
  })
})

describe('databases of a project', () => {
  it('are listed newest first, in pages, without their passwords', async () => {
    const project = await newProject()
    const one = await createdDatabase(server.client, project, { name: 'one' })
    const two = await createdDatabase(server.client, project, { name: 'two' })
    const params = { project_id: project }
    const { databases } = await server.client.databases.list({ params })
    expect(databases.map(({ id }) => id)).toEqual([two.id, one.id])
    expect(Object.keys(databases[0] ?? {}).sort()).toEqual([
      'created_at',
      'id',
      'name',
      'plan',
      'status',
      'type',
      'version',
    ])
    const headers = { authorization: `Bearer ${server.apiKey}` }
    const first = await fetch(`${server.baseUrl}/projects/${project}/databases?limit=1`, { headers })
    expect(await first.json()).toMatchObject({ databases: [{ id: two.id }] })
    const [, next = ''] = /^<(.*)>; rel="next"$/.exec(first.headers.get('link') ?? '') ?? []
    const second = await fetch(new URL(next, server.url), { headers })
    expect(await second.json()).toMatchObject({ databases: [{ id: one.id }] })
    expect(second.headers.get('link')).toBeNull()
  })

  it('cannot be seen from another project or account', async () => {
    const project = await newProject()
    const { id } = await createdDatabase(server.client, project)
    const other = await newProject()
    await expect(server.client.databases.get({ params: { project_id: other, id } })).rejects.toMatchObject({
      code: 'not_found',
    })
    const account = await server.accounts.create({ name: 'other', plan: 'free' })
    const foreign = server.clientFor(await server.key({ accountId: account.id }))
    await expect(foreign.databases.get({ params: { project_id: project, id } })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  it('get a new password, with which the old one ends', async () => {
    const project = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project)
    const rotated = await server.client.databases.rotatePassword({ params: { project_id: project, id } })
    expect(rotated).toMatchObject({ id, name: 'db', type: 'postgresql', version: '18', status: 'available' })
    expect(await query(rotated.connection_string, 'select 1')).toEqual([[1]])
    await expect(query(connection_string, 'select 1')).rejects.toMatchObject({ code: '28P01' })
  })
})

describe('a deleted database', () => {
  it('lets nobody in, can be restored with what it held, and keeps its connection string', async () => {
    const project = await newProject()
    const params = { project_id: project }
    const { id, connection_string } = await createdDatabase(server.client, project)
    await query(connection_string, 'create table kept as select 42 as answer')
    await using open = await connect(connection_string)
    const ended = new Promise((done) => open.once('end', done))
    await server.client.databases.delete({ params: { ...params, id } })
    await ended
    await expect(connect(connection_string)).rejects.toMatchObject({ code: expect.stringMatching(/^(28000|3D000)$/) })
    const deleted = await server.client.databases.get({ params: { ...params, id } })
    expect(deleted.status).toBe('deleting')
    const days = (Date.parse(deleted.restorable_until ?? '') - Date.now()) / 86_400_000
    expect(days).toBeGreaterThan(6.9)
    expect((await server.client.databases.list({ params })).databases).toMatchObject([{ id, status: 'deleting' }])
    expect((await server.client.projects.get({ params })).resources.databases).toBe(0)
    // Twice is the same as once.
    await server.client.databases.delete({ params: { ...params, id } })

    expect(await server.client.databases.restore({ params: { ...params, id } })).toMatchObject({
      status: 'provisioning',
      restorable_until: null,
    })
    await untilDatabase(server.client, project, id)
    expect(await query(connection_string, 'select answer from kept')).toEqual([[42]])
    await expect(server.client.databases.restore({ params: { ...params, id } })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })

  it('is gone for good when its time is over', async () => {
    await using other = await testServer({ FAIRLEAD_DATABASE_RETENTION_DAYS: '0' })
    const project = (await other.client.projects.create({ body: { name: 'p' } })).id
    const { id, connection_string } = await createdDatabase(other.client, project)
    await other.client.databases.delete({ params: { project_id: project, id } })
    await expect(untilDatabase(other.client, project, id, () => false)).rejects.toMatchObject({ code: 'not_found' })
    await expect(connect(connection_string)).rejects.toMatchObject({ code: '28P01' })
  })
})
