import { once } from 'node:events'
import { createServer } from 'node:http'
import { describe, expect, it } from 'vitest'
import { accountKeyContext } from '../../../../server/src/features/certificates/tables.ts'
import { acmeProblem } from '../../../harness/acme-proxy.ts'
import { dashboardHost, type World } from '../../../harness/certificates/world.ts'
import { ecKey, pemOf } from '../../../harness/issuing.ts'
import { failureOf, noAuthority, shownFor, until, useAuthority, waitOf } from '../authority.ts'

describe.skipIf(noAuthority !== null)('a failing attempt', () => {
  const authority = useAuthority({ blocked: ['blocked.test'], refusedNonces: 0 })
  const ordersOf = (name: string) =>
    authority.proxy.requests.filter(
      ({ path, payload }) => path === '/order-plz' && JSON.stringify(payload).includes(`"${name}"`),
    ).length

  /** Makes a server whose app has this domain. */
  async function withDomain(given: World, name: string): Promise<World> {
    await given.domain((await given.app()).id, name)
    await given.lead()
    return given
  }

  it('for too many certificates waits as long as the authority says, with all names below the same domain', async () => {
    await using given = await authority.worldBehindProxy()
    authority.proxy.answer(({ path, payload }) => {
      if (path !== '/order-plz' || !JSON.stringify(payload).includes('.limited.test"')) return undefined
      const detail = 'too many certificates (50) already issued for "limited.test" in the last 168h0m0s'
      return acmeProblem(429, 'rateLimited', detail, { 'retry-after': '7200' })
    })
    const app = await given.app()
    await given.domain(app.id, 'one.limited.test')
    await given.lead()
    const row = await failureOf(given, 'one.limited.test')
    expect(row.failure).toMatchObject({ code: 'rate_limited', message: expect.stringContaining('already issued for') })
    expect(waitOf(row)).toBeGreaterThan(119)
    await given.domain(app.id, 'two.limited.test')
    await given.domain(app.id, 'www.other.test')
    await shownFor(given, 'www.other.test')
    const waiting = await failureOf(given, 'two.limited.test')
    expect(waiting).toMatchObject({ attempts: 0, failure: { code: 'rate_limited' } })
    expect([ordersOf('one.limited.test'), ordersOf('two.limited.test')]).toEqual([1, 0])
    authority.proxy.answer(() => undefined)
    await given.age('one.limited.test', '130 minutes')
    await given.database.query("update certificates set next_attempt_at = now() where names = '{two.limited.test}'")
    await shownFor(given, 'one.limited.test')
    await shownFor(given, 'two.limited.test')
  })

  it('for too many certificates of the same names, however often it has failed, does not delay other names', async () => {
    await using given = await authority.worldBehindProxy()
    authority.proxy.answer(({ path, payload }) => {
      if (path !== '/order-plz' || !JSON.stringify(payload).includes('"requests.same.test"')) return undefined
      const detail = 'too many certificates (5) already issued for this exact set of identifiers in the last 168h0m0s'
      return acmeProblem(429, 'rateLimited', detail, { 'retry-after': '7200' })
    })
    const app = await given.app()
    const domain = await given.domain(app.id, 'requests.same.test')
    await given.lead()
    await shownFor(given, dashboardHost)
    await failureOf(given, 'requests.same.test')
    await given.domain(app.id, 'www.same.test')
    await shownFor(given, 'www.same.test')
    await given.age('requests.same.test', '130 minutes')
    await given.database.query("update certificates set attempts = 20 where names = '{requests.same.test}'")
    const row = await until(async () => {
      const failed = await failureOf(given, 'requests.same.test')
      expect(failed.attempts).toBe(21)
      return failed
    })
    expect(waitOf(row)).toBeGreaterThan(640)
    const pauses = await given.database.query<{ scope: string; minutes: number }>(
      'select scope, extract(epoch from until - now())::float8 / 60 as minutes from acme_pauses',
    )
    expect(pauses).toEqual([{ scope: 'name:requests.same.test', minutes: expect.closeTo(120, -1) }])
    // Adding the domain again begins no order, either.
    const orders = ordersOf('requests.same.test')
    await given.database.query('delete from domains where id = $1', [domain])
    await given.domain(app.id, 'requests.same.test')
    await until(async () => {
      expect(await failureOf(given, 'requests.same.test')).toMatchObject({
        attempts: 0,
        failure: { code: 'rate_limited' },
      })
    })
    expect(ordersOf('requests.same.test')).toBe(orders)
    authority.proxy.answer(() => undefined)
  })

  it('with another account’s key creates a new account', async () => {
    await using given = await authority.world()
    await given.lead()
    await shownFor(given, dashboardHost)
    await given.stop()
    const [before] = await given.database.query<{ url: string; directory: string }>('select * from acme_accounts')
    const sealed = given.secrets.encrypt(pemOf(ecKey()), accountKeyContext(before?.directory ?? ''))
    await given.database.query('update acme_accounts set private_key = $1', [sealed])
    await given.age(dashboardHost, '61 days')
    await given.lead()
    await until(async () => expect((await given.events()).map(({ event }) => event)).toEqual(['certificate.renewed']))
    const [after] = await given.database.query<{ url: string }>('select url from acme_accounts')
    expect(after?.url).not.toBe(before?.url)
  })

  it('for an account that the authority never accepts does not create one after another', async () => {
    await using given = await authority.worldBehindProxy()
    const made = () => authority.proxy.requests.filter(({ path }) => path === '/sign-me-up').length
    const before = made()
    authority.proxy.answer(({ path }) =>
      path === '/order-plz' || path === '/my-account'
        ? acmeProblem(401, 'accountDoesNotExist', 'no such account')
        : undefined,
    )
    await given.lead()
    expect(await failureOf(given, dashboardHost)).toMatchObject({ failure: { code: 'account_problem' } })
    expect(made() - before).toBeLessThanOrEqual(2)
    authority.proxy.answer(() => undefined)
  })

  it('leaves the order to the next server when this server is killed', async () => {
    await using given = await authority.worldBehindProxy()
    const { promise: asked, resolve } = Promise.withResolvers<void>()
    authority.proxy.answer(({ path }) => {
      if (!path.startsWith('/finalize-order/')) return undefined
      resolve()
      // Never answered.
      return new Promise(() => undefined)
    })
    const app = await given.app()
    await given.domain(app.id, 'www.killed.test')
    await given.lead()
    await asked
    await given.stop()
    const orders = ordersOf('www.killed.test')
    expect(await given.row('www.killed.test')).toMatchObject({ is_under_way: true, order_url: expect.any(String) })
    authority.proxy.answer(() => undefined)
    await given.lead()
    await shownFor(given, 'www.killed.test')
    expect([orders, ordersOf('www.killed.test')]).toEqual([1, 1])
    expect(await given.row('www.killed.test')).toMatchObject({ attempts: 0, order_url: null, is_under_way: false })
  })

  it('because of a damaged key of its unfinished order begins another order', async () => {
    await using given = await authority.world()
    await given.lead()
    await shownFor(given, dashboardHost)
    const { serial } = (await given.row(dashboardHost)) ?? {}
    await given.stop()
    await given.age(dashboardHost, '61 days')
    await given.database.query("update certificates set order_url = 'https://authority.test/1', order_key = '\\x00'")
    await given.lead()
    await until(async () => expect(await given.row(dashboardHost)).toMatchObject({ attempts: 1, is_under_way: false }))
    await given.age(dashboardHost, '2 minutes')
    await until(async () => expect((await given.row(dashboardHost))?.serial).not.toBe(serial))
  })

  it('for a name that the authority does not allow reports this', async () => {
    await using given = await withDomain(await authority.world(), 'www.blocked.test')
    expect(await failureOf(given, 'www.blocked.test')).toMatchObject({ failure: { code: 'rejected_identifier' } })
  })

  it('for a name that leads nowhere reports this', async () => {
    await authority.dns.setAddresses('www.closed.test', ['127.77.0.1'])
    await using given = await withDomain(await authority.world(), 'www.closed.test')
    expect(await failureOf(given, 'www.closed.test')).toMatchObject({
      failure: { code: 'connection_refused', message: expect.stringContaining('port 80') },
    })
  })

  it('for a name that leads to another server reports this', async () => {
    await using given = await authority.world()
    const elsewhere = createServer((_, response) => response.end('Hello'))
    elsewhere.listen(given.httpPort, '127.77.0.2')
    await once(elsewhere, 'listening')
    await authority.dns.setAddresses('www.moved.test', ['127.77.0.2'])
    await withDomain(given, 'www.moved.test')
    expect(await failureOf(given, 'www.moved.test')).toMatchObject({ failure: { code: 'unauthorized' } })
    elsewhere.close()
  })

  it('without a reachable edge sends no request to the authority', async () => {
    await using given = await authority.worldBehindProxy()
    const challenges = () => authority.proxy.requests.filter(({ path }) => path.startsWith('/chalZ/')).length
    const before = challenges()
    await given.lead({ httpPort: 1 })
    expect(await failureOf(given, dashboardHost)).toMatchObject({ failure: { code: 'challenge_not_visible' } })
    expect(challenges()).toBe(before)
  })

  it.each([
    [403, 'caa', 'CAA record for www.a.test prevents issuance', 'caa'],
    [400, 'dns', 'DNSSEC: signature expired', 'dns_problem'],
    [403, 'externalAccountRequired', 'use EAB', 'account_problem'],
    [500, 'serverInternal', 'oh', 'authority_error'],
    [400, 'surprise', 'boo', 'authority_error'],
  ])('reports the authority’s message: %d %s', async (status, type, detail, code) => {
    await using given = await authority.worldBehindProxy()
    authority.proxy.answer(({ path }) => (path === '/order-plz' ? acmeProblem(status, type, detail) : undefined))
    await given.lead()
    const { failure } = await failureOf(given, dashboardHost)
    expect(failure).toEqual({ code, message: expect.stringContaining(`“${detail}”`) })
    authority.proxy.answer(() => undefined)
  })

  it('by an error of the authority hides the message about this name from others', async () => {
    await using given = await authority.worldBehindProxy()
    await given.lead()
    await shownFor(given, dashboardHost)
    authority.proxy.answer(({ path }) =>
      path === '/order-plz'
        ? acmeProblem(500, 'serverInternal', 'oh, secret.first.test', { 'retry-after': '7200' })
        : undefined,
    )
    await given.domain((await given.app(await given.tenant())).id, 'secret.first.test')
    await failureOf(given, 'secret.first.test')
    await given.domain((await given.app(await given.tenant())).id, 'www.second.test')
    const { failure, attempts } = await failureOf(given, 'www.second.test')
    expect([failure.code, attempts]).toEqual(['authority_error', 0])
    expect(failure.message).not.toContain('first.test')
    authority.proxy.answer(() => undefined)
  })

  it('reports the authority’s message about one name among several', async () => {
    await using given = await authority.worldBehindProxy()
    const caa = { type: 'urn:ietf:params:acme:error:caa', detail: 'only other.example' }
    const whole = { type: 'urn:ietf:params:acme:error:malformed', detail: 'see below', subproblems: [caa] }
    authority.proxy.answer(({ path }) =>
      path === '/order-plz' ? { ...acmeProblem(400, '', ''), body: JSON.stringify(whole) } : undefined,
    )
    await given.lead()
    expect(await failureOf(given, dashboardHost)).toMatchObject({
      failure: { code: 'caa', message: expect.stringContaining('“only other.example”') },
    })
    authority.proxy.answer(() => undefined)
  })

  it.each([
    ['a response that is not ACME', { status: 503, headers: { 'retry-after': '600' }, body: '<html>' }],
    ['a missing response', null],
  ])('by %s is repeated, at the earliest when the authority allows it', async (_, answer) => {
    await using given = await authority.worldBehindProxy()
    authority.proxy.answer(({ path }) => (path === '/order-plz' ? answer : undefined))
    await given.lead()
    const row = await failureOf(given, dashboardHost)
    expect(row.failure.code).toBe(answer === null ? 'authority_unreachable' : 'authority_error')
    expect(waitOf(row)).toBeGreaterThan(answer === null ? 0.9 : 9.9)
    authority.proxy.answer(() => undefined)
  })

  it('by an untrusted authority names the setting for its certificate', async () => {
    await using given = await authority.world()
    const { directoryUrl: url } = authority.pebble
    await given.lead({ acme: { email: 'operator@example.com', url, ca: authority.proxy.caFile } })
    expect(await failureOf(given, dashboardHost)).toMatchObject({
      failure: { code: 'authority_unreachable', message: expect.stringContaining('FAIRLEAD_ACME_CA') },
    })
  })
})
