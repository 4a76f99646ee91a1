import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { Client as Postgres } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operations } from '../../../server/src/contract/operations.ts'
import { takesIdempotencyKey } from '../../../server/src/http/idempotency.ts'
import { testDatabase } from '../../harness/database.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { open } from '../../harness/raw.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let server: OwnServer
beforeAll(async () => {
  server = await ownServer()
})
afterAll(() => server[Symbol.asyncDispose]())

interface Answer {
  readonly status: number
  readonly replayed: string | null
  readonly location: string | null
  readonly text: string
}

/** A POST with an `Idempotency-Key`. */
async function post(
  path: string,
  key: string | undefined,
  body: unknown,
  { baseUrl, apiKey }: { baseUrl: string; apiKey: string } = server,
): Promise<Answer> {
  const response = await fetch(baseUrl + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    body: JSON.stringify(body),
  })
  const { headers, status } = response
  const text = await response.text()
  return { status, replayed: headers.get('idempotent-replayed'), location: headers.get('location'), text }
}

const fieldOf = ({ text }: Answer) => JSON.parse(text).error.details.field
const projectsNamed = (name: string) => server.database.query('select id from projects where name = $1', [name])

describe('a request with an Idempotency-Key', () => {
  it('that is repeated changes nothing and gets the first response', async () => {
    const key = randomUUID()
    const first = await post('/projects', key, { name: 'again' })
    expect(first).toMatchObject({ status: 201, replayed: null })
    expect(await post('/projects', key, { name: 'again' })).toEqual({ ...first, replayed: 'true' })
    // Requests that are equal after parsing count as the same.
    expect(await post('/projects', key, { unknown: 1, name: ' again ' })).toEqual({ ...first, replayed: 'true' })
    expect(await projectsNamed('again')).toHaveLength(1)
  })

  it('that is sent 50 times at once creates one resource, and all get the same response', async () => {
    const key = randomUUID()
    const twins = await Promise.all(Array.from({ length: 50 }, () => post('/projects', key, { name: 'twin' })))
    expect(await projectsNamed('twin')).toHaveLength(1)
    expect(new Set(twins.map(({ text }) => text)).size).toBe(1)
    expect(new Set(twins.map(({ location }) => location)).size).toBe(1)
    expect(twins.every(({ status }) => status === 201)).toBe(true)
    expect(twins.filter(({ replayed }) => replayed === null)).toHaveLength(1)
  })

  it('that is repeated concurrently does not block other requests', async () => {
    // Creating a project waits for this lock, inside its transaction.
    const blocker = new Postgres(server.database.url)
    await blocker.connect()
    await blocker.query('begin; lock table projects in share row exclusive mode')
    const key = randomUUID()
    const twins = Array.from({ length: 50 }, () => post('/projects', key, { name: 'held' }))
    const others = Array.from({ length: 50 }, (_, at) => post('/projects', undefined, { name: `held ${at}` }))
    await expect
      .poll(async () => {
        const [row] = await server.database.query<{ waiting: number }>(
          "select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
        return row?.waiting
      })
      .toBe(10)
    // Ten changes hold a connection each; the rest of the pool remains for reads.
    const reads = await Promise.all(Array.from({ length: 50 }, () => server.client.projects.list()))
    expect(reads).toHaveLength(50)
    await blocker.query('commit')
    await blocker.end()
    for (const answer of await Promise.all([...twins, ...others])) expect(answer.status).toBe(201)
    expect(await projectsNamed('held')).toHaveLength(1)
  })

  it('with another body, or on another path, is refused', async () => {
    const [one, two] = await Promise.all([1, 2].map(() => server.client.projects.create({ body: { name: 'p' } })))
    const key = randomUUID()
    const body = { name: 'web', git_url: 'https://127.0.0.1:1/a.git' }
    expect((await post(`/projects/${one?.id}/deployments`, key, body)).status).toBe(201)
    for (const other of [
      await post(`/projects/${one?.id}/deployments`, key, { ...body, name: 'other' }),
      await post(`/projects/${two?.id}/deployments`, key, body),
    ]) {
      expect(other.status).toBe(400)
      expect(fieldOf(other)).toBe('Idempotency-Key')
    }
  })

  it('does not collide with the same key for another operation or account', async () => {
    const key = randomUUID()
    const other = await server.accounts.create({ name: 'other', plan: 'pro' })
    const first = await post('/projects', key, { name: 'mine' })
    const second = await post('/webhooks', key, { url: 'http://127.0.0.1:1/' })
    const apiKey = await server.key({ accountId: other.id })
    const third = await post('/projects', key, { name: 'mine' }, { baseUrl: server.baseUrl, apiKey })
    expect([first, second, third].map(({ status, replayed }) => [status, replayed])).toEqual(
      Array.from({ length: 3 }, () => [201, null]),
    )
  })

  it('never gets a response to an API key with more access', async () => {
    const project = await server.client.projects.create({ body: { name: 'p' } })
    const body = { url: 'http://127.0.0.1:1/', project_id: project.id }
    const key = randomUUID()
    expect((await post('/webhooks', key, body)).status).toBe(201)
    const apiKey = await server.key({ projectIds: [project.id] })
    expect(fieldOf(await post('/webhooks', key, body, { baseUrl: server.baseUrl, apiKey }))).toBe('Idempotency-Key')
  })

  it('that was answered with an error may be corrected and sent again', async () => {
    const key = randomUUID()
    expect((await post('/projects', key, { name: 'a', plan: 'gold' })).status).toBe(400)
    expect(await post('/projects', key, { name: 'a' })).toMatchObject({ status: 201, replayed: null })
  })

  it.each(['', 'x'.repeat(256), 'ümlaut', 'tab\tinside'])('that is %j is refused', async (key) => {
    const answer = await post('/projects', key, { name: 'a' })
    expect(answer.status).toBe(400)
    expect(fieldOf(answer)).toBe('Idempotency-Key')
  })

  it('is new again after 24 hours', async () => {
    const key = randomUUID()
    const age = (hours: number) =>
      server.database.query("update idempotency_keys set created_at = now() - $1 * interval '1 hour' where key = $2", [
        hours,
        key,
      ])
    const first = await post('/projects', key, { name: 'aged' })
    await age(23.9)
    expect(await post('/projects', key, { name: 'aged' })).toEqual({ ...first, replayed: 'true' })
    await age(24.1)
    expect(await post('/projects', key, { name: 'new' })).toMatchObject({ status: 201, replayed: null })
  })

  it('has its response stored encrypted', async () => {
    const key = randomUUID()
    const { text } = await post('/webhooks', key, { url: 'http://127.0.0.1:1/' })
    const [row] = await server.database.query<{ answer: Buffer }>(
      'select answer from idempotency_keys where key = $1',
      [key],
    )
    expect(row?.answer.length).toBeGreaterThan(50)
    expect(row?.answer.includes(JSON.parse(text).secret)).toBe(false)
    expect(row?.answer.includes('127.0.0.1')).toBe(false)
  })

  it('is removed after it has expired', async () => {
    const [old, young] = [randomUUID(), randomUUID()]
    await post('/projects', old, { name: 'old' })
    await post('/projects', young, { name: 'young' })
    await server.database.query("update idempotency_keys set created_at = now() - interval '26 hours' where key = $1", [
      old,
    ])
    // Expired rows are removed at every start, and then every hour.
    await server.restart()
    const kept = () => server.database.query('select key from idempotency_keys where key = any($1)', [[old, young]])
    await expect.poll(kept).toEqual([{ key: young }])
  })
})

it('every POST accepts an Idempotency-Key, except uploads and requests that wait for others', () => {
  for (const operation of operations) {
    const repeats = operation.method === 'POST' && !operation.upload && !operation.waits && !operation.text
    expect(takesIdempotencyKey(operation)).toBe(repeats)
  }
})

it('a kill -9 during a change leaves nothing behind, and the repetition gets the response', async () => {
  await using database = await testDatabase()
  await using directory = await temporaryDirectory()
  const data = join(directory.path, 'data')
  const environment = { DATABASE_URL: database.url }
  const made = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data], environment)
  const apiKey = made.stdout.trim()
  const targetOf = ({ url }: { readonly url: string }) => ({ baseUrl: `${url}/v1`, apiKey })
  const projects = () => database.query<{ id: string; name: string }>('select id, name from projects order by name')

  const first = await serverProcess(data, environment)
  const blocker = new Postgres(database.url)
  await blocker.connect()
  await blocker.query('begin; lock table projects in share row exclusive mode')
  const during = randomUUID()
  const lost = post('/projects', during, { name: 'once' }, targetOf(first)).catch(() => 'no answer')
  const waiting = `select from pg_locks join pg_database on pg_database.oid = database
    where not granted and locktype = 'relation' and datname = current_database()`
  await expect.poll(() => database.query(waiting)).toHaveLength(1)
  await first.kill()
  expect(await lost).toBe('no answer')
  await blocker.query('rollback')
  await blocker.end()

  const second = await serverProcess(data, environment)
  const again = await post('/projects', during, { name: 'once' }, targetOf(second))
  expect(again).toMatchObject({ status: 201, replayed: null })
  expect(await projects()).toMatchObject([{ name: 'once' }])
  const after = randomUUID()
  const body = JSON.stringify({ name: 'unheard' })
  const socket = await open(second.url)
  socket.pause()
  socket.write(
    `POST /v1/projects HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${apiKey}\r\nIdempotency-Key: ${after}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await expect.poll(projects).toHaveLength(2)
  await second.kill()
  socket.destroy()
  const before = await projects()

  const third = await serverProcess(data, environment)
  const answer = await post('/projects', after, { name: 'unheard' }, targetOf(third))
  expect(answer).toMatchObject({ status: 201, replayed: 'true', location: `/v1/projects/${before[1]?.id}` })
  expect(JSON.parse(answer.text)).toMatchObject({ id: before[1]?.id, name: 'unheard' })
  expect(await projects()).toEqual(before)
  await third.stop()
})
