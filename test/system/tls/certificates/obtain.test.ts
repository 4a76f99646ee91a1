import { createPrivateKey } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { dashboardHost, domain } from '../../../harness/certificates/world.ts'
import { noAuthority, shownFor, until, useAuthority } from '../authority.ts'

describe.skipIf(noAuthority !== null)('a certificate of an authority', () => {
  // The client gives up after six refusals of one request: with 25 % refused, one run of this file in thirty failed.
  const authority = useAuthority({ refusedNonces: 10 })

  it('is there for the dashboard at once, and for an app at its first visit', async () => {
    await using given = await authority.world()
    const app = await given.app()
    await given.lead()
    const own = await shownFor(given, dashboardHost)
    expect(own.subjectAltName).toBe(`DNS:${dashboardHost}`)
    expect(own.publicKey.asymmetricKeyDetails?.namedCurve).toBe('prime256v1')
    expect([...given.shown.keys()]).toEqual([dashboardHost])
    given.visit(app.hostname)
    expect((await shownFor(given, app.hostname)).subjectAltName).toBe(`DNS:${app.hostname}`)
    const row = await given.row(app.hostname)
    expect(row).toMatchObject({
      ...{ account_id: given.operatorId, app_id: app.id, domain_id: null, attempts: 0, failure: null },
      ...{ is_under_way: false, order_url: null },
    })
    expect(row?.issuer).toMatch(/Pebble/)
    expect(given.answers.size).toBe(0)
  })

  it('is shown with its own key, which is stored encrypted and never logged', async () => {
    await using given = await authority.world()
    await given.lead()
    const certificate = await shownFor(given, dashboardHost)
    const pem = given.shown.get(dashboardHost) ?? ''
    expect(certificate.checkPrivateKey(createPrivateKey(pem))).toBe(true)
    const secret = pem.split('\n')[1] ?? ''
    const stored = await given.database.query(
      `select certificates::text from certificates union all select acme_accounts::text from acme_accounts
       union all select events::text from events`,
    )
    expect(JSON.stringify([stored, given.log])).not.toContain(secret)
    expect(JSON.stringify(given.log)).not.toContain('PRIVATE KEY')
  })

  it('is there for a domain at once, even after a late verification, and goes with it', async () => {
    await using given = await authority.world()
    const app = await given.app()
    const first = await given.domain(app.id, 'www.first.test')
    await given.lead()
    await shownFor(given, 'www.first.test')
    const second = await given.domain(app.id, 'www.second.test')
    await shownFor(given, 'www.second.test')
    expect(await given.row('www.second.test')).toMatchObject({ domain_id: second, app_id: app.id })
    await given.database.query('delete from domains where id = $1', [first])
    await until(() => expect([...given.shown.keys()].sort()).toEqual([dashboardHost, 'www.second.test']))
    expect(await given.row('www.first.test')).toBeUndefined()
    await given.database.query('delete from apps where id = $1', [app.id])
    await until(() => expect([...given.shown.keys()]).toEqual([dashboardHost]))
  })

  it('is not shown for a domain that now belongs to another account, which gets a new one', async () => {
    await using given = await authority.world()
    const [own, tenant] = [await given.app(), await given.app(await given.tenant())]
    const before = await given.domain(own.id, 'www.moved.test')
    await given.lead()
    const { serialNumber } = await shownFor(given, 'www.moved.test')
    await given.database.query("update domains set status = 'pending', served_since = null where id = $1", [before])
    const after = await given.domain(tenant.id, 'www.moved.test')
    await until(async () => expect((await shownFor(given, 'www.moved.test')).serialNumber).not.toBe(serialNumber))
    expect(await given.row('www.moved.test')).toMatchObject({ domain_id: after })
    const rows = await given.rows("'www.moved.test' = any(names)")
    expect(rows.map(({ domain_id }) => domain_id)).toEqual([before, after])
  })

  it('is ordered once, despite many visits by many visitors', async () => {
    await using given = await authority.world()
    const app = await given.app()
    await given.lead()
    for (let count = 0; count < 50; count++) given.visit(app.hostname)
    await shownFor(given, app.hostname)
    for (let count = 0; count < 50; count++) given.visit(app.hostname)
    await shownFor(given, dashboardHost)
    await given.stop()
    await given.lead()
    expect(await given.database.query('select id from acme_orders')).toHaveLength(2)
    expect(await given.rows()).toHaveLength(2)
  })

  it('is never ordered for names that are not served here', async () => {
    await using given = await authority.world()
    await given.lead()
    await shownFor(given, dashboardHost)
    for (const name of [`nobody.${domain}`, `*.${domain}`, domain, 'www.elsewhere.test']) given.visit(name)
    await given.stop()
    expect((await given.rows()).map(({ names }) => names)).toEqual([[dashboardHost]])
  })

  it('is shown again by a new server and a new gateway, without a new order', async () => {
    await using given = await authority.world()
    await given.lead()
    const { serialNumber } = await shownFor(given, dashboardHost)
    await given.stop()
    given.forget()
    await given.lead()
    expect((await shownFor(given, dashboardHost)).serialNumber).toBe(serialNumber)
  })

  it('is removed when the server leads again after its name has gone', async () => {
    await using given = await authority.world()
    const app = await given.app()
    await given.domain(app.id, 'www.gone.test')
    await given.lead()
    await shownFor(given, 'www.gone.test')
    await given.stop()
    await given.database.query('delete from apps where id = $1', [app.id])
    expect(given.shown.has('www.gone.test')).toBe(true)
    await given.lead()
    expect(given.shown.has('www.gone.test')).toBe(false)
  })

  it('is obtained by an account whose contact address changes', async () => {
    await using given = await authority.world()
    await given.lead()
    await shownFor(given, dashboardHost)
    const { directoryUrl: url, caFile: ca } = authority.pebble
    await given.stop()
    await given.age(dashboardHost, '61 days')
    await given.lead({ acme: { email: 'other@example.com', url, ca } })
    await until(async () => expect(await given.events()).toHaveLength(1))
    expect(await given.database.query('select email from acme_accounts')).toEqual([{ email: 'other@example.com' }])
  })
})
