import { join } from 'node:path'
import { expect, it } from 'vitest'
import { testDatabase } from '../../harness/database.ts'
import { databaseProxy } from '../../harness/database-proxy.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

it('a database outage is answered with 500 and no internals; the server keeps running and recovers', async () => {
  await using database = await testDatabase()
  await using directory = await temporaryDirectory()
  await using proxy = await databaseProxy(database.url, directory.path)
  const data = join(directory.path, 'data')
  const environment = { DATABASE_URL: proxy.url }
  const key = (
    await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data], environment)
  ).stdout.trim()
  await using server = await serverProcess(data, environment)
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(server.url + path, { ...init, headers })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const create = (name: string) => ask('/v1/projects', { method: 'POST', body: JSON.stringify({ name }) })
  expect((await create('before')).status).toBe(201)
  expect((await ask('/readyz')).status).toBe(200)

  await proxy.cut()
  for (const answer of await Promise.all([ask('/v1/projects'), create('meanwhile')])) {
    expect(answer).toEqual({
      status: 500,
      body: { error: { code: 'server_error', message: expect.stringContaining('request id'), details: {} } },
    })
    expect(JSON.stringify(answer.body)).not.toMatch(/ENOENT|connect|sql|fairlead-test/i)
  }
  expect(await ask('/readyz')).toEqual({
    status: 503,
    body: { status: 'not ready', reason: 'the database does not answer' },
  })
  expect((await ask('/healthz')).status).toBe(200)
  // A malformed key is refused without the database, even though the attempt cannot be counted.
  expect((await fetch(`${server.url}/v1/projects`, { headers: { authorization: 'Bearer wrong' } })).status).toBe(401)

  await proxy.restore()
  await expect.poll(async () => (await ask('/readyz')).status, { timeout: 60_000 }).toBe(200)
  expect((await create('after')).status).toBe(201)
  const { body } = await ask('/v1/projects')
  expect((body['projects'] as { name: string }[]).map(({ name }) => name)).toEqual(['after', 'before'])
})
