import { createDashboardClient } from '@fairlead/server/dashboard-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { browser } from '../harness/browser.ts'
import { inTheMiddle } from '../harness/in-the-middle.ts'
import { type OwnServer, ownServer } from '../harness/server.ts'

let server: OwnServer
let api: string
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1' })
  api = `${server.url}/dashboard/api`
})
afterAll(() => server[Symbol.asyncDispose]())

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(api + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', ...headers },
    body: JSON.stringify(body),
  })

let addresses = 0
/** Returns an address without attempts: attempts are limited by address. */
const elsewhere = () => {
  addresses += 1
  return { 'x-forwarded-for': `192.0.2.${addresses}` }
}

const newUser = { email: 'first@example.com', password: 'correct horse battery staple' }

describe('the first start', () => {
  it('prints a link that creates the first user, and no link once there is one', async () => {
    await using fresh = await ownServer()
    const line = fresh.log.find((entry) => 'link' in entry)
    expect(line?.['msg']).toContain('there is no user yet')
    const link = new URL(String(line?.['link']))
    expect(link.origin).toBe(fresh.url)
    expect(link.pathname).toBe('/setup')
    const token = link.hash.slice(1)
    const opened = browser(fresh.url)
    expect(await opened.dashboard.setup.check({ body: { token } })).toMatchObject({ account: { name: 'Operator' } })
    const made = await opened.dashboard.setup.complete({ body: { token, ...newUser } })
    const { secret, device, ...described } = made
    expect([secret, device]).toEqual([expect.stringMatching(/^[\w-]{43}$/), expect.stringMatching(/^[\w-]{43}$/)])
    expect(await opened.dashboard.session.get()).toEqual(described)
    expect(made).toMatchObject({ user: { email: newUser.email }, account: { name: 'Operator', plan: 'enterprise' } })
  })
})

describe('a setup link', () => {
  it('creates one user, however many requests use it at once', async () => {
    const token = await server.setupLink()
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, i) =>
        post('/setup', { token, email: `racer${i}@example.com`, password: newUser.password }, elsewhere()),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404, 404])
    expect((await post('/setup/check', { token }, elsewhere())).status).toBe(404)
  })

  it('expires after an hour', async () => {
    const token = await server.setupLink()
    await server.database.query("update setup_links set expires_at = expires_at - interval '1 hour'")
    expect((await post('/setup', { token, ...newUser }, elsewhere())).status).toBe(404)
  })

  it('works however many wrong links came from the same address', async () => {
    const token = await server.setupLink()
    const one = elsewhere()
    const wrong = await Promise.all(
      Array.from({ length: 64 }, (_, at) => post('/setup/check', { token: `wrong${at}` }, one)),
    )
    expect(wrong.filter(({ status }) => status === 429)).toHaveLength(4)
    expect((await post('/setup/check', { token }, one)).status).toBe(200)
  })

  it('ends the oldest when an account has very many', async () => {
    const { id } = await server.accounts.create({ name: 'many links', plan: 'free' })
    const first = await server.setupLink(id)
    for (let i = 0; i < 99; i++) await server.setupLink(id)
    expect((await post('/setup/check', { token: first }, elsewhere())).status).toBe(200)
    const last = await server.setupLink(id)
    expect((await post('/setup/check', { token: first }, elsewhere())).status).toBe(404)
    expect((await post('/setup/check', { token: last }, elsewhere())).status).toBe(200)
  })

  it('survives a mistake', async () => {
    const user = await server.signIn()
    const token = await server.setupLink()
    for (const [body, field] of [
      [{ token, email: 'nonsense', password: newUser.password }, 'email'],
      [{ token, email: 'a@example.com', password: 'too short' }, 'password'],
      [{ token, email: user.email.toUpperCase(), password: newUser.password }, 'email'],
    ] as const) {
      const response = await post('/setup', body, elsewhere())
      expect(response.status).toBe(400)
      expect(await response.json()).toMatchObject({ error: { details: { field } } })
    }
    expect((await post('/setup', { token, email: 'b@example.com', password: newUser.password })).status).toBe(200)
  })

  it('is stored as a hash, like sessions; passwords use argon2id', async () => {
    const user = await server.signIn()
    const token = await server.setupLink()
    const rows = await server.database.query<{ row: string }>(
      `select setup_links::text as row from setup_links union all select sessions::text from sessions
        union all select users::text from users union all select devices::text from devices`,
    )
    const { secret, device = '' } = user.kept()
    for (const given of [token, user.cookie().split('=')[1] ?? '', user.password, secret, device]) {
      expect(rows.some(({ row }) => row.includes(given))).toBe(false)
    }
    const [stored] = await server.database.query<{ hash: string }>(
      'select password_hash as hash from users where id = $1',
      [user.userId],
    )
    expect(stored?.hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  })
})

describe('signing in', () => {
  it('sets a new cookie each time, which scripts and other sites cannot read', async () => {
    const user = await server.signIn()
    const former = user.credentials()
    const response = await user.fetch(`${api}/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: ` ${user.email.toUpperCase()} `, password: user.password }),
    })
    expect(response.status).toBe(200)
    expect(response.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^fairlead_session=[\w-]{43}; Max-Age=2592000; Path=\/; HttpOnly; SameSite=Strict$/),
    ])
    expect(user.cookie()).not.toBe(former.cookie)
    // The new session ended the previous one.
    expect((await fetch(`${api}/session`, { headers: former })).status).toBe(401)
    expect((await user.dashboard.sessions.list()).sessions).toHaveLength(1)
  })

  it('sets a __Host- cookie over HTTPS, and accepts no other there', async () => {
    const { email, password, credentials } = await server.signIn()
    const https = { 'x-forwarded-proto': 'https' }
    const response = await post('/session', { email, password }, https)
    const [set = ''] = response.headers.getSetCookie()
    expect(set).toMatch(/^__Host-fairlead_session=[\w-]{43}; .*Path=\/; HttpOnly; SameSite=Strict; Secure$/)
    const secure = set.split(';')[0] ?? ''
    const { secret } = (await response.json()) as { secret: string }
    const headers = { ...https, cookie: secure, 'x-fairlead-session': secret }
    expect((await fetch(`${api}/session`, { headers })).status).toBe(200)
    expect((await fetch(`${api}/session`, { headers: { ...https, ...credentials() } })).status).toBe(401)
  })

  it('answers the same to a wrong password and to an unknown user', async () => {
    const { email } = await server.signIn()
    const wrong = await post('/session', { email, password: 'wrong password' }, elsewhere())
    const unknown = await post('/session', { email: 'nobody@example.com', password: 'wrong password' }, elsewhere())
    expect([wrong.status, unknown.status]).toEqual([401, 401])
    expect(await wrong.text()).toBe(await unknown.text())
    expect(wrong.headers.getSetCookie()).toEqual([])
  })

  it('refuses a name that the database cannot store', async () => {
    const response = await post('/session', { email: 'a\0b@example.com', password: 'wrong' }, elsewhere())
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { details: { field: 'email' } } })
  })

  const attempts = (count: number, email: (at: number) => string, from: () => Record<string, string>, more = {}) =>
    Promise.all(
      Array.from({ length: count }, async (_, at) => {
        const body = { email: email(at), password: 'wrong password', ...more }
        return (await post('/session', body, from())).status
      }),
    )
  const refused = (statuses: readonly number[]) => statuses.filter((status) => status === 429).length

  it('is limited by user, existing or not, together with the address', async () => {
    const { email, password } = await server.signIn()
    const one = elsewhere()
    for (const tried of [email, 'nobody-again@example.com']) {
      const statuses = await attempts(
        12,
        () => tried,
        () => one,
      )
      expect(statuses.sort()).toEqual([...Array<number>(10).fill(401), 429, 429])
    }
    const late = await post('/session', { email, password }, one)
    expect(late.status).toBe(429)
    expect(Number(late.headers.get('retry-after'))).toBeGreaterThan(800)
    expect(await late.json()).toMatchObject({ error: { code: 'rate_limit_exceeded' } })
    expect((await post('/session', { email, password }, elsewhere())).status).toBe(200)
  })

  it('is limited by address, and by user', async () => {
    const one = elsewhere()
    const { email } = await server.signIn()
    await attempts(
      2,
      () => email,
      () => one,
    )
    await server.database.query(
      "update attempts set used = 98 where name in ('sign-in by address', 'sign-in by user') and key in ($1, $2)",
      [one['x-forwarded-for'], email],
    )
    const byAddress = await attempts(
      4,
      (at) => `n${at}@example.com`,
      () => one,
    )
    expect(refused(byAddress)).toBe(2)
    expect(refused(await attempts(4, () => email, elsewhere))).toBe(2)
  })

  it('is limited for a browser in which the user has signed in only by its own attempts', async () => {
    const user = await server.signIn()
    const other = await server.signIn()
    const one = elsewhere()
    await attempts(
      12,
      () => user.email,
      () => one,
    )
    expect((await user.signIn(user)).user.email).toBe(user.email)
    // The browser of another user is not known for this user.
    const { device } = other.kept()
    expect((await post('/session', { email: user.email, password: user.password, device }, one)).status).toBe(429)
    const own = { device: user.kept().device }
    expect(refused(await attempts(12, () => user.email, elsewhere, own))).toBe(2)
    await expect(user.signIn(user)).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
  })

  it('accepts only its own names for browsers', async () => {
    const { email, password } = await server.signIn()
    const device = 'a-name-that-others-know'
    const answer = await post('/session', { email, password, device }, elsewhere())
    const made = (await answer.json()) as { device: string }
    expect(made.device).not.toBe(device)
    const again = await post('/session', { email, password, device: made.device }, elsewhere())
    expect(await again.json()).toMatchObject({ device: made.device })
  })

  it('does not count successful attempts', async () => {
    const { email, password } = await server.signIn()
    const one = elsewhere()
    for (let i = 0; i < 15; i++) expect((await post('/session', { email, password }, one)).status).toBe(200)
  })

  it('leaves entries in the audit log, of failures too', async () => {
    const user = await server.signIn()
    await post('/session', { email: user.email, password: 'wrong password' }, elsewhere())
    await post('/session', { email: 'secret-typed-here', password: 'wrong password' }, elsewhere())
    const { dashboard } = browser(server.url)
    await dashboard.session.create({ body: { email: user.email, password: user.password } })
    await dashboard.session.delete()
    const { entries } = await user.client.auditLog.list({ query: { limit: 5 } })
    const actor = { type: 'user', id: user.userId, name: user.email }
    expect(entries.map(({ operation, actor }) => ({ operation, actor }))).toEqual([
      { operation: 'session.delete', actor },
      { operation: 'session.create', actor },
      { operation: 'session.create_failed', actor: { type: 'user', id: null, name: null } },
      { operation: 'session.create_failed', actor },
      { operation: 'setup.complete', actor },
    ])
  })
})

describe('a session', () => {
  it('may use the whole API, in its account', async () => {
    const user = await server.signIn()
    const project = await user.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })
    expect((await user.client.projects.get({ params: { project_id: project.id } })).name).toBe('p')
    const { id } = await server.accounts.create({ name: 'other', plan: 'free' })
    const other = await server.signIn({ accountId: id })
    expect((await other.client.projects.list()).projects).toEqual([])
    await expect(other.client.projects.get({ params: { project_id: project.id } })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  it('needs its cookie and its secret, both of the same session', async () => {
    const [user, other] = [await server.signIn(), await server.signIn()]
    const own = user.credentials()
    const statusOf = async (headers: Record<string, string>) => (await fetch(`${api}/session`, { headers })).status
    expect(await statusOf(own)).toBe(200)
    expect(await statusOf({ cookie: own.cookie })).toBe(401)
    expect(await statusOf({ 'x-fairlead-session': own['x-fairlead-session'] })).toBe(401)
    expect(await statusOf({ ...own, cookie: other.cookie() })).toBe(401)
    expect(await statusOf({ ...own, 'x-fairlead-session': own.cookie.split('=')[1] ?? '' })).toBe(401)
    expect(await statusOf({ ...own, 'x-fairlead-session': 'nonsense' })).toBe(401)
  })

  it('is not ended by a sign-in that has its cookie alone', async () => {
    const [user, thief] = [await server.signIn(), await server.signIn()]
    const { email, password } = thief
    expect((await post('/session', { email, password }, { cookie: user.cookie() })).status).toBe(200)
    expect((await user.dashboard.session.get()).user.email).toBe(user.email)
  })

  it('ends when the user begins more sessions than the plan allows', async () => {
    const user = await server.signIn()
    for (let i = 0; i < 50; i++) await browser(server.url).signIn(user)
    await expect(user.dashboard.session.get()).rejects.toMatchObject({ code: 'unauthorized' })
    const [row] = await server.database.query<{ count: string }>('select count(*) from sessions where user_id = $1', [
      user.userId,
    ])
    expect(row?.count).toBe('50')
  })

  it('ends by signing out', async () => {
    const user = await server.signIn()
    const headers = user.credentials()
    await user.dashboard.session.delete()
    expect(user.cookie()).toBe('')
    expect((await fetch(`${api}/projects`, { headers })).status).toBe(401)
  })

  it.each([
    ['seven days without a request', "last_seen_at = now() - interval '7 days'"],
    ['thirty days in all', 'expires_at = now()'],
  ])('ends after %s', async (_, change) => {
    const user = await server.signIn()
    await user.dashboard.session.get()
    await server.database.query(`update sessions set ${change} where user_id = $1`, [user.userId])
    await expect(user.dashboard.session.get()).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it('continues as long as it is used', async () => {
    const user = await server.signIn()
    await server.database.query("update sessions set last_seen_at = now() - interval '6 days' where user_id = $1", [
      user.userId,
    ])
    await user.dashboard.session.get()
    const [row] = await server.database.query<{ recent: boolean }>(
      "select last_seen_at > now() - interval '1 minute' as recent from sessions where user_id = $1",
      [user.userId],
    )
    expect(row?.recent).toBe(true)
  })

  it('is listed with its address and browser, and another session can end it', async () => {
    const user = await server.signIn()
    const other = browser(server.url)
    await other.dashboard.session.create({ body: { email: user.email, password: user.password } })
    const { sessions } = await user.dashboard.sessions.list()
    expect(sessions.map(({ current }) => current)).toEqual([false, true])
    expect(sessions[0]).toMatchObject({ address: '127.0.0.1', user_agent: 'node' })
    const id = sessions[0]?.id ?? ''
    await user.dashboard.sessions.revoke({ params: { id } })
    await expect(other.dashboard.session.get()).rejects.toMatchObject({ code: 'unauthorized' })
    await expect(user.dashboard.sessions.revoke({ params: { id } })).rejects.toMatchObject({ code: 'not_found' })
  })

  it('cannot end another user’s sessions', async () => {
    const [one, other] = [await server.signIn(), await server.signIn()]
    const { session } = await other.dashboard.session.get()
    await expect(one.dashboard.sessions.revoke({ params: { id: session.id } })).rejects.toMatchObject({
      code: 'not_found',
    })
    await other.dashboard.session.get()
  })
})

describe('changing the password', () => {
  it('ends all other sessions and the old password', async () => {
    const user = await server.signIn()
    const other = browser(server.url)
    await other.dashboard.session.create({ body: { email: user.email, password: user.password } })
    const changed = { current_password: user.password, new_password: 'another horse, another battery' }
    await user.dashboard.password.change({ body: changed })
    await user.dashboard.session.get()
    await expect(other.dashboard.session.get()).rejects.toMatchObject({ code: 'unauthorized' })
    const signIn = (password: string) => other.dashboard.session.create({ body: { email: user.email, password } })
    await expect(signIn(user.password)).rejects.toMatchObject({ code: 'unauthorized' })
    await signIn(changed.new_password)
  })

  it('needs the current password, and counts attempts to guess it', async () => {
    const user = await server.signIn()
    const change = (current_password: string) =>
      user.dashboard.password.change({ body: { current_password, new_password: 'another horse, another battery' } })
    for (let i = 0; i < 10; i++) {
      await expect(change('wrong password')).rejects.toMatchObject({
        code: 'invalid_request',
        details: { field: 'current_password' },
      })
    }
    await expect(change(user.password)).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
  })

  it('happens once per current password, even when others know it', async () => {
    const user = await server.signIn()
    const other = browser(server.url)
    await other.dashboard.session.create({ body: { email: user.email, password: user.password } })
    const asked = [
      { by: user, password: 'another horse, another battery' },
      { by: other, password: 'a third horse, a third battery' },
    ]
    const changed = await inTheMiddle(
      server.database,
      (own) => own.query('select from users where id = $1 for update', [user.userId]),
      () =>
        asked.map(({ by, password }) =>
          by.dashboard.password.change({ body: { current_password: user.password, new_password: password } }).then(
            () => 'changed',
            ({ code }: { code: string }) => code,
          ),
        ),
    )
    expect([...changed].sort()).toEqual(['changed', 'invalid_request'])
    const works = await Promise.all(
      asked.map(({ password }) =>
        browser(server.url)
          .dashboard.session.create({ body: { email: user.email, password } })
          .then(
            () => 'changed',
            () => 'invalid_request',
          ),
      ),
    )
    expect(works).toEqual(changed)
  })

  it('accepts a password in any Unicode normalisation', async () => {
    const user = await server.signIn()
    const composed = 'm\u00fcller m\u00fcller m\u00fcller'
    await user.dashboard.password.change({ body: { current_password: user.password, new_password: composed } })
    const { status } = await post('/session', { email: user.email, password: composed.normalize('NFD') }, elsewhere())
    expect(status).toBe(200)
  })
})

describe('a request that changes something', () => {
  const create = (headers: Record<string, string>) =>
    fetch(`${api}/projects`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ name: 'p' }),
    })

  it.each([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['another port of this host', { 'sec-fetch-site': 'same-site' }],
    ['the address bar', { 'sec-fetch-site': 'none' }],
    ['another port of this host, by its origin', { origin: 'http://127.0.0.1:1' }],
    ['a page without an origin', { origin: 'null' }],
    ['an unknown site', {}],
  ])('is refused from %s', async (_, headers: Record<string, string>) => {
    const user = await server.signIn()
    const { total } = await user.client.projects.list()
    expect((await create({ ...user.credentials(), ...headers })).status).toBe(403)
    expect((await user.client.projects.list()).total).toBe(total)
  })

  it('is accepted from the dashboard, by its Origin when the browser sends no Sec-Fetch-Site', async () => {
    const user = await server.signIn()
    expect((await create({ ...user.credentials(), origin: server.url })).status).toBe(201)
    const proxied = { 'x-forwarded-host': 'fairlead.example.com', origin: 'https://fairlead.example.com' }
    expect((await create({ ...user.credentials(), ...proxied })).status).toBe(201)
  })
})

describe('without a session', () => {
  it.each(['/session', '/sessions', '/projects', '/account', '/nothing'])('GET %s answers 401', async (path) => {
    expect((await fetch(api + path)).status).toBe(401)
    expect((await fetch(api + path, { headers: { cookie: 'fairlead_session=nonsense' } })).status).toBe(401)
  })

  it('an API key is not valid under /dashboard/api, and a cookie not under /v1', async () => {
    const headers = { authorization: `Bearer ${server.apiKey}` }
    expect((await fetch(`${api}/projects`, { headers })).status).toBe(401)
    const session = (await server.signIn()).credentials()
    expect((await fetch(`${server.baseUrl}/projects`, { headers: session })).status).toBe(401)
  })

  it('the client of the dashboard rejects with the error of the server', async () => {
    const { session } = createDashboardClient({ baseUrl: api })
    await expect(session.get()).rejects.toMatchObject({ code: 'unauthorized', message: 'Sign in first.' })
  })
})
