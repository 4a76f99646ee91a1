import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { generateKey } from '../../server/src/features/accounts/keys.ts'
import { testDatabase } from '../harness/database.ts'
import { fairlead, serverProcess } from '../harness/process.ts'
import { ownServer, type TestServer } from '../harness/server.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

let server: TestServer
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1' })
})
afterAll(() => server[Symbol.asyncDispose]())

interface Answer {
  readonly status: number
  readonly limit: number
  readonly remaining: number
  readonly reset: number
  readonly retryAfter: number
  readonly body: unknown
}

const ask = async (key: string, path = '/account', init: RequestInit = {}, base = server.baseUrl): Promise<Answer> => {
  const response = await fetch(base + path, { ...init, headers: { ...init.headers, authorization: `Bearer ${key}` } })
  const number = (name: string) => Number(response.headers.get(name) ?? Number.NaN)
  return {
    status: response.status,
    limit: number('x-ratelimit-limit'),
    remaining: number('x-ratelimit-remaining'),
    reset: number('x-ratelimit-reset'),
    retryAfter: number('retry-after'),
    body: await response.json(),
  }
}

const accountWith = async (requestsPerHour: number | null, plan: 'free' | 'pro' | 'enterprise' = 'enterprise') => {
  const { id } = await server.accounts.create({ name: 'limited', plan, requestsPerHour })
  return { id, key: await server.key({ accountId: id }) }
}

describe('the limit', () => {
  it.each([
    ['free', 1_000],
    ['pro', 10_000],
    ['enterprise', 100_000],
  ] as const)('of the plan %s is %i an hour', async (plan, limit) => {
    const { key } = await accountWith(null, plan)
    const before = Date.now() / 1000
    const answer = await ask(key)
    expect(answer).toMatchObject({ status: 200, limit, remaining: limit - 1 })
    expect(answer.reset).toBeGreaterThanOrEqual(Math.floor(before) + 3600)
    expect(answer.reset).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000) + 3600)
  })

  it('can be specific to an account, and its keys share it', async () => {
    const { id, key } = await accountWith(5)
    expect(await ask(key)).toMatchObject({ limit: 5, remaining: 4 })
    expect(await ask(await server.key({ accountId: id }))).toMatchObject({ limit: 5, remaining: 3 })
  })

  it('is reported on 403, 404 and 400 as well, each of which counts', async () => {
    const { id } = await accountWith(100)
    const key = await server.key({ accountId: id, preset: 'read' })
    expect(await ask(key, '/projects', { method: 'POST' })).toMatchObject({ status: 403, remaining: 99 })
    expect(await ask(key, '/nothing')).toMatchObject({ status: 404, remaining: 98 })
    expect(await ask(key, '/projects/nonsense')).toMatchObject({ status: 404, remaining: 97 })
    expect(await ask(key, '/projects?limit=x')).toMatchObject({ status: 400, remaining: 96 })
  })

  it('is reported on 500 as well', async () => {
    await using broken = await ownServer()
    await broken.database.query('alter table projects rename to missing')
    const answer = await ask(broken.apiKey, '/projects', {}, broken.baseUrl)
    expect(answer).toMatchObject({ status: 500, limit: 100_000, remaining: 99_999 })
  })

  it('counts every request exactly once, however many arrive together', async () => {
    const one = await accountWith(1_000)
    const other = await accountWith(500)
    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, i) =>
        ask(i % 3 === 0 ? other.key : one.key, i % 2 === 0 ? '/account' : '/nothing'),
      ),
    )
    const remaining = (limit: number) =>
      answers.filter((answer) => answer.limit === limit).map((answer) => answer.remaining)
    const falling = (limit: number, count: number) => Array.from({ length: count }, (_, i) => limit - 1 - i)
    expect(remaining(1_000).sort((a, b) => b - a)).toEqual(falling(1_000, 200))
    expect(remaining(500).sort((a, b) => b - a)).toEqual(falling(500, 100))
    expect(new Set(answers.filter(({ limit }) => limit === 500).map(({ reset }) => reset)).size).toBe(1)
  })
})

describe('a request beyond the limit', () => {
  it('is answered with 429 and Retry-After; exactly the limit gets through', async () => {
    const { key } = await accountWith(10)
    const answers = await Promise.all(Array.from({ length: 25 }, () => ask(key)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused).toHaveLength(15)
    for (const answer of refused) {
      expect(answer).toMatchObject({ limit: 10, remaining: 0, body: { error: { code: 'rate_limit_exceeded' } } })
      expect(answer.retryAfter).toBeGreaterThan(3590)
      expect(answer.retryAfter).toBeLessThanOrEqual(3600)
    }
  })

  it('comes after 401 and before 403', async () => {
    const { id, key } = await accountWith(1)
    await ask(key)
    const small = await server.key({ accountId: id, preset: 'read' })
    expect(await ask(small, '/projects', { method: 'POST' })).toMatchObject({ status: 429 })
    expect(await ask(generateKey(), '/projects', { method: 'POST' })).toMatchObject({ status: 401, limit: Number.NaN })
  })

  it('is accepted again when the hour is over or the limit was raised', async () => {
    const { id, key } = await accountWith(2)
    await Promise.all([ask(key), ask(key)])
    expect(await ask(key)).toMatchObject({ status: 429 })
    await server.accounts.update(id, { requestsPerHour: 100 })
    expect((await ask(key)).status).toBe(200)
    await server.database.query(
      "update rate_windows set started_at = now() - interval '1 hour' where account_id = $1",
      [id],
    )
    expect(await ask(key)).toMatchObject({ status: 200, remaining: 99 })
  })

  it('differs for signed-in users, by the plan of their account', async () => {
    const { id, key } = await accountWith(1, 'free')
    await ask(key)
    await ask(key)
    const user = await server.signIn({ accountId: id })
    const get = () => user.fetch(`${server.url}/dashboard/api/account`)
    const response = await get()
    expect(response.status).toBe(200)
    expect(response.headers.get('x-ratelimit-limit')).toBe('20000')
    expect(await response.json()).toMatchObject({ rate_limit: { limit: 1, used: 1, remaining: 0 } })
    const left = Number(response.headers.get('x-ratelimit-remaining'))
    expect(Number((await get()).headers.get('x-ratelimit-remaining'))).toBe(left - 1)
    await server.database.query('update session_rate_windows set used = 20000 where account_id = $1', [id])
    const refused = await get()
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3500)
    const other = await server.signIn()
    expect((await other.dashboard.session.get()).user.email).toBe(other.email)
  })
})

it('survives kill -9 and a restart', async () => {
  await using database = await testDatabase()
  await using directory = await temporaryDirectory()
  const data = join(directory.path, 'data')
  const environment = { DATABASE_URL: database.url }
  const made = await fairlead(['keys', 'create', '--new', '--name', 'a', '--data-dir', data], environment)
  const key = made.stdout.trim()
  const first = await serverProcess(data, environment)
  for (let i = 0; i < 3; i++) await ask(key, '/account', {}, `${first.url}/v1`)
  await first.kill()
  await using second = await serverProcess(data, environment)
  expect(await ask(key, '/account', {}, `${second.url}/v1`)).toMatchObject({ limit: 100_000, remaining: 99_996 })
})

describe('failed authentication', () => {
  const fail = async (address: string, authorization = `Bearer ${generateKey()}`) => {
    const headers = { authorization, 'x-forwarded-for': address }
    const response = await fetch(`${server.baseUrl}/projects`, { headers })
    return { status: response.status, retryAfter: Number(response.headers.get('retry-after')) }
  }

  it('is limited to 60 a minute by address, and never locks out a valid key', async () => {
    const answers = await Promise.all(Array.from({ length: 80 }, () => fail('192.0.2.1')))
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(60)
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused).toHaveLength(20)
    for (const { retryAfter } of refused) expect(retryAfter).toBeGreaterThan(0)
    expect(await fail('192.0.2.1', `Bearer ${server.apiKey}`)).toMatchObject({ status: 200 })
    expect(await fail('192.0.2.2')).toMatchObject({ status: 401 })
  })

  it('is counted by /64 of an IPv6 address', async () => {
    const answers = await Promise.all(Array.from({ length: 61 }, (_, i) => fail(`2001:db8:0:1::${i.toString(16)}`)))
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(1)
    expect(await fail('2001:db8:0:2::1')).toMatchObject({ status: 401 })
  })

  it('ignores addresses left of the proxy’s address: the client supplies them', async () => {
    const answers = await Promise.all(Array.from({ length: 61 }, (_, i) => fail(`10.9.8.${i}, 192.0.2.9`)))
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(1)
  })
})
