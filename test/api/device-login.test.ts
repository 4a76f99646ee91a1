import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ownServer, type SignedInBrowser, type TestServer } from '../harness/server.ts'

let server: TestServer
let person: SignedInBrowser
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1' })
  person = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

interface Begun {
  readonly device_code: string
  readonly user_code: string
}

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(server.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
const begin = async (name = 'laptop', headers: Record<string, string> = {}) =>
  (await (await post('/device/code', { name }, headers)).json()) as Begun
/** Asks for the key; as if the interval had passed, unless told otherwise. */
const ask = async ({ device_code }: Begun, { early = false, headers = {} } = {}) => {
  if (!early) await server.database.query('update device_logins set polled_at = null')
  const response = await post('/device/token', { device_code }, headers)
  const body = (await response.json()) as { api_key?: string; error?: { code: string; details: { reason?: string } } }
  return { status: response.status, key: body.api_key, code: body.error?.code, reason: body.error?.details.reason }
}
const decided = (user_code: string) => ({ body: { user_code } })
const entries = async () =>
  (await person.client.auditLog.list()).entries.filter(({ operation }) => operation.startsWith('device.'))

describe('the login of a command', () => {
  it('begins with two codes and the approval page', async () => {
    const response = await post('/device/code', { name: 'laptop' })
    expect(response.status).toBe(200)
    expect(response.headers.get('cache-control')).toBe('no-store')
    const begun = (await response.json()) as Begun
    expect(begun).toEqual({
      device_code: expect.stringMatching(/^[\w-]{43}$/),
      user_code: expect.stringMatching(/^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/),
      verification_uri: `${server.url}/device`,
      verification_uri_complete: `${server.url}/device#${begun.user_code}`,
      expires_in: 600,
      interval: 5,
    })
  })

  it('gets one key, with the name of the machine, once a person has approved; the audit log has every step', async () => {
    const begun = await begin('workbench', { 'x-forwarded-for': '198.51.100.7' })
    expect(await ask(begun)).toMatchObject({ status: 400, code: 'invalid_request', reason: 'authorization_pending' })
    const typed = begun.user_code.replace('-', '').toLowerCase()
    expect(await person.dashboard.device.check(decided(typed))).toMatchObject({
      user_code: begun.user_code,
      name: 'workbench',
      address: '198.51.100.7',
      preset: 'full',
    })
    await person.dashboard.device.approve(decided(typed))
    const answers = await Promise.all([ask(begun), ask(begun, { early: true }), ask(begun, { early: true })])
    const keys = answers.flatMap(({ key }) => key ?? [])
    expect(keys).toHaveLength(1)
    expect((await server.clientFor(keys[0] ?? '').account.get()).name).toBe('Operator')
    const [listed] = (await person.client.apiKeys.list()).api_keys
    expect(listed).toMatchObject({ name: 'fairlead login on workbench', preset: 'full', expires_at: null })
    expect(await ask(begun)).toMatchObject({ reason: 'expired_token' })
    const [made, approved] = await entries()
    expect(made).toMatchObject({ operation: 'device.token', resource_id: listed?.id })
    expect(approved).toMatchObject({ operation: 'device.approve' })
    expect([made?.actor.name, approved?.actor.name]).toEqual([person.email, person.email])
  })

  it('gets no key after a refusal, and its codes become invalid', async () => {
    const before = (await person.client.apiKeys.list()).api_keys.length
    const begun = await begin()
    await person.dashboard.device.deny(decided(begun.user_code))
    await expect(person.dashboard.device.approve(decided(begun.user_code))).rejects.toMatchObject({ code: 'not_found' })
    expect(await ask(begun)).toMatchObject({ status: 400, reason: 'access_denied' })
    expect(await ask(begun)).toMatchObject({ reason: 'expired_token' })
    expect((await entries())[0]).toMatchObject({ operation: 'device.deny' })
    expect((await person.client.apiKeys.list()).api_keys).toHaveLength(before)
  })

  it('gets a request to slow down when it asks too early, and still gets its key', async () => {
    const begun = await begin()
    expect(await ask(begun)).toMatchObject({ reason: 'authorization_pending' })
    expect(await ask(begun, { early: true })).toMatchObject({ status: 400, reason: 'slow_down' })
    await person.dashboard.device.approve(decided(begun.user_code))
    expect(await ask(begun, { early: true })).toMatchObject({ reason: 'slow_down' })
    expect((await ask(begun)).key).toMatch(/^fl_/)
  })

  it('ends with its codes, approved or not', async () => {
    const [waiting, approved] = [await begin(), await begin()]
    await person.dashboard.device.approve(decided(approved.user_code))
    await server.database.query("update device_logins set expires_at = now() - interval '1 second'")
    expect(await ask(waiting)).toMatchObject({ reason: 'expired_token' })
    expect(await ask(approved)).toMatchObject({ reason: 'expired_token' })
    await expect(person.dashboard.device.check(decided(waiting.user_code))).rejects.toMatchObject({ code: 'not_found' })
  })

  it('keeps no code in the database', async () => {
    const begun = await begin()
    const rows = await server.database.query('select * from device_logins')
    const stored = JSON.stringify(rows, (_, value) => value)
    const hex = (text: string) => Buffer.from(text).toString('hex')
    for (const code of [begun.device_code, begun.user_code, begun.user_code.replace('-', '')]) {
      expect(stored).not.toContain(code)
      expect(stored).not.toContain(hex(code))
    }
  })

  it('refuses names that could deceive', async () => {
    for (const name of ['', 'a\nb', '\x1b[2J', 'x'.repeat(101), 7]) {
      expect((await post('/device/code', { name })).status).toBe(400)
    }
  })
})

describe('an approval', () => {
  const attempt = (path: string, code: string, headers: Record<string, string>) =>
    post(`/dashboard/api/device/${path}`, { user_code: code }, headers)

  it('needs the session of a person: no key, and no page of another origin', async () => {
    const { user_code } = await begin()
    const key = { authorization: `Bearer ${server.apiKey}` }
    const session = person.credentials()
    for (const path of ['check', 'approve', 'deny']) {
      const answers = [
        await attempt(path, user_code, { ...key, 'sec-fetch-site': 'same-origin' }),
        await attempt(path, user_code, { ...session, 'sec-fetch-site': 'cross-site' }),
        await attempt(path, user_code, { ...session, 'sec-fetch-site': 'same-site' }),
        await attempt(path, user_code, { cookie: session.cookie, 'sec-fetch-site': 'same-origin' }),
      ]
      expect(answers.map(({ status }) => status)).toEqual([401, 403, 403, 401])
    }
    expect(await person.dashboard.device.check(decided(user_code))).toMatchObject({ user_code })
  })

  it('gives a key of the person’s account', async () => {
    const { id } = await server.accounts.create({ name: 'Other', plan: 'free' })
    const other = await server.signIn({ accountId: id })
    const begun = await begin()
    await other.dashboard.device.approve(decided(begun.user_code))
    const { key = '' } = await ask(begun)
    expect((await server.clientFor(key).account.get()).id).toBe(id)
  })

  it('resists guessing: after 30 wrong codes in 15 minutes, a person has no further attempt', async () => {
    const { id } = await server.accounts.create({ name: 'Guesser', plan: 'free' })
    const guesser = await server.signIn({ accountId: id })
    const guess = () => guesser.dashboard.device.check(decided('BBBB-BBBB')).catch((error) => error.code)
    const answers = await Promise.all(Array.from({ length: 31 }, guess))
    expect(answers.filter((code) => code === 'not_found')).toHaveLength(30)
    expect(answers).toContain('rate_limit_exceeded')
    const right = decided((await begin()).user_code)
    for (const attempt of [guesser.dashboard.device.check, guesser.dashboard.device.approve]) {
      await expect(attempt(right)).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
    }
  })
})

it('an address begins at most 60 logins in 15 minutes, and polls at most 60 times with invalid codes', async () => {
  const from = { 'x-forwarded-for': '203.0.113.9' }
  const begun = await Promise.all(Array.from({ length: 61 }, () => post('/device/code', { name: 'a' }, from)))
  expect(begun.filter(({ status }) => status === 200)).toHaveLength(60)
  const refused = begun.find(({ status }) => status === 429)
  expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0)
  const wrong = { device_code: 'x', user_code: '' }
  const asked = await Promise.all(Array.from({ length: 61 }, () => ask(wrong, { early: true, headers: from })))
  expect(asked.filter(({ status }) => status === 429)).toHaveLength(1)
})
