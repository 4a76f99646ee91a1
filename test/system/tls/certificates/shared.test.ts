import { X509Certificate } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { insertUpload } from '../../../../server/src/features/certificates/certificates.ts'
import { checkUpload } from '../../../../server/src/features/certificates/check-upload.ts'
import { isProblem } from '../../../../server/src/features/certificates/pem.ts'
import { createLook } from '../../../../server/src/features/certificates/serving.ts'
import { dashboardHost, domain, type World } from '../../../harness/certificates/world.ts'
import { uploadOf } from '../../../harness/certificates.ts'
import { failureOf, noAuthority, shownFor, until, useAuthority } from '../authority.ts'

describe.skipIf(noAuthority !== null)('certificates of several accounts', () => {
  const authority = useAuthority()

  async function upload(given: World, accountId: string, names: readonly string[], days = 90): Promise<string> {
    const body = await uploadOf({ names, to: days })
    const checked = checkUpload({ certificate: body.certificate, privateKey: body.private_key }, new Date())
    if (isProblem(checked)) throw new Error(checked.message)
    await given.transaction((on) => insertUpload(on, given.secrets, { accountId, projectId: null }, checked))
    return new X509Certificate(body.certificate).serialNumber
  }

  it('that are uploaded are shown only for their own names, and removed after their deletion', async () => {
    await using given = await authority.world()
    const tenant = await given.tenant()
    const app = await given.app(tenant)
    await given.domain(app.id, 'www.shop.test')
    await given.lead()
    const before = await shownFor(given, 'www.shop.test')
    const serial = await upload(given, tenant.accountId, ['*.shop.test', dashboardHost, `*.${domain}`])
    await until(async () => expect((await shownFor(given, 'www.shop.test')).serialNumber).toBe(serial))
    expect((await shownFor(given, dashboardHost)).issuer).toMatch(/Pebble/)
    expect(given.shown.has(`*.${domain}`)).toBe(false)
    await given.database.query("delete from certificates where source = 'uploaded'")
    await until(async () => expect((await shownFor(given, 'www.shop.test')).serialNumber).toBe(before.serialNumber))
  })

  it('that the operator has uploaded serve the dashboard and all apps', async () => {
    await using given = await authority.world()
    const serial = await upload(given, given.operatorId, [`*.${domain}`])
    await given.lead()
    expect((await shownFor(given, dashboardHost)).serialNumber).toBe(serial)
    expect((await shownFor(given, `*.${domain}`)).serialNumber).toBe(serial)
    const app = await given.app(await given.tenant())
    const own = await upload(given, given.operatorId, [app.hostname])
    expect((await shownFor(given, app.hostname)).serialNumber).toBe(own)
  })

  it('that tenants have uploaded do not make the server order names of apps', async () => {
    await using given = await authority.world()
    await upload(given, given.operatorId, [`own.${domain}`])
    await upload(given, (await given.tenant()).accountId, [`theirs.${domain}`, 'www.shop.test'])
    const looked: (readonly string[])[] = []
    await given.transaction((on) =>
      createLook({
        database: on,
        announce: async () => undefined,
        own: { domain, dashboardHost, hasDnsUpdates: false },
        operatorId: given.operatorId,
        servedNames: async ({ hostnames }) => {
          looked.push(hostnames)
          return []
        },
      })(),
    )
    expect(looked).toEqual([[`own.${domain}`]])
  })

  it('that are uploaded spare the authority, and resolve the problems of missing ones', async () => {
    await using given = await authority.world()
    const tenant = await given.tenant()
    const app = await given.app(tenant)
    // Without DNS updates, no server can obtain it.
    await given.domain(app.id, '*.shop.test')
    await given.lead()
    await failureOf(given, '*.shop.test')
    const serial = await upload(given, tenant.accountId, ['*.shop.test'])
    expect((await shownFor(given, '*.shop.test')).serialNumber).toBe(serial)
    await given.age('*.shop.test', '2 minutes')
    await until(async () => {
      expect((await given.rows("'*.shop.test' = any(names)")).map(({ issuer }) => issuer)).toEqual([
        'Tests (Test Authority)',
      ])
    })
  })

  it('that end soon are reported, even while orders are suspended', async () => {
    await using given = await authority.world()
    await given.lead()
    await shownFor(given, dashboardHost)
    await given.stop()
    const failure = JSON.stringify({ code: 'rate_limited', message: 'Later.' })
    await given.database.query("insert into acme_pauses values ('*', now() + interval '1 day', $1)", [failure])
    await given.database.query(
      "update certificates set not_before = now() - interval '81 days', expires_at = now() + interval '9 days', next_attempt_at = now()",
    )
    await given.lead()
    await until(async () => expect(await given.events()).toHaveLength(1))
    expect(await given.events()).toMatchObject([
      { event: 'certificate.failed', data: { attempts: 0, failure: { code: 'rate_limited' } } },
    ])
  })

  it('that are uploaded and end soon are reported once, and replaced by the authority’s when they end', async () => {
    await using given = await authority.world()
    const tenant = await given.tenant()
    const app = await given.app(tenant)
    await given.domain(app.id, 'www.ends.test')
    const serial = await upload(given, tenant.accountId, ['www.ends.test', 'unused.test'], 9)
    await given.lead()
    expect((await shownFor(given, 'www.ends.test')).serialNumber).toBe(serial)
    await given.database.query(
      "update certificates set not_before = now() - interval '80 days', next_attempt_at = null where source = 'uploaded'",
    )
    await until(async () => expect(await given.events()).toHaveLength(1))
    const [event] = await given.events()
    expect(event).toMatchObject({
      event: 'certificate.failed',
      data: { names: ['www.ends.test', 'unused.test'], attempts: 0, failure: { code: 'expires_soon' } },
    })
    await until(async () => expect((await given.row('www.ends.test'))?.chain).toContain('BEGIN CERTIFICATE'))
    expect((await shownFor(given, 'www.ends.test')).serialNumber).toBe(serial)
    await given.database.query(
      "update certificates set expires_at = now() - interval '1 s', next_attempt_at = null where source = 'uploaded'",
    )
    await until(async () => expect((await shownFor(given, 'www.ends.test')).serialNumber).not.toBe(serial))
    expect(await given.events()).toHaveLength(1)
  })

  it('of a tenant with many names do not delay others', async () => {
    await using given = await authority.world()
    const [many, few] = [await given.tenant(), await given.tenant()]
    const big = await given.app(many)
    for (let count = 0; count < 40; count++) await given.domain(big.id, `www.big${count}.test`)
    const small = await given.app(few)
    await given.domain(small.id, 'www.small.test')
    await given.lead()
    await shownFor(given, 'www.small.test')
    expect([...given.shown.keys()].filter((name) => name.startsWith('www.big')).length).toBeLessThan(30)
    await given.stop()
  })

  it('of a tenant use no more than half of the authority’s limit', async () => {
    await using given = await authority.world()
    const [many, few] = [await given.tenant(), await given.tenant()]
    const [busy, quiet] = [await given.app(many), await given.app(few)]
    await given.database.query(
      `insert into acme_orders (account_id, registered_domain, is_renewal)
       select $1, $2, false from generate_series(1, 500)`,
      [many.accountId, domain],
    )
    await given.lead()
    given.visit(busy.hostname)
    given.visit(quiet.hostname)
    await shownFor(given, quiet.hostname)
    const row = await failureOf(given, busy.hostname)
    expect(row).toMatchObject({ attempts: 0, failure: { code: 'limit_reached' }, order_url: null })
    await given.age(busy.hostname, '8 days')
    await shownFor(given, busy.hostname)
  })
})
