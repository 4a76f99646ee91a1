import { describe, expect, it } from 'vitest'
import { dashboardHost } from '../../../harness/certificates/world.ts'
import { failureOf, noAuthority, shownFor, until, useAuthority, waitOf } from '../authority.ts'

describe.skipIf(noAuthority !== null)('an authority that is down', () => {
  const authority = useAuthority()

  it('for an hour gets repeated requests, and renews the certificate when it is back', async () => {
    await using given = await authority.world()
    await given.lead()
    const before = await shownFor(given, dashboardHost)
    await given.stop()
    await authority.pebble.stop()
    // The time of the renewal.
    await given.age(dashboardHost, '61 days')
    await given.lead()
    for (const [attempts, [least, most]] of [
      [0.9, 1.2],
      [4.5, 5.6],
      [13.5, 16.6],
      [54, 66.1],
    ].entries()) {
      const row = await until(async () => {
        const failed = await failureOf(given, dashboardHost)
        expect(failed.attempts).toBe(attempts + 1)
        return failed
      })
      expect(row.failure.code).toBe('authority_unreachable')
      expect(waitOf(row)).toBeGreaterThan(least ?? 0)
      expect(waitOf(row)).toBeLessThan(most ?? 0)
      expect((await shownFor(given, dashboardHost)).serialNumber).toBe(before.serialNumber)
      if (attempts < 3) await given.age(dashboardHost, `${most} minutes`)
    }
    const events = await given.events()
    expect(events.map(({ event, data }) => [event, data['attempts']])).toEqual([['certificate.failed', 2]])
    // It has also forgotten the account of this server.
    await authority.pebble.start()
    await given.age(dashboardHost, '67 minutes')
    await until(async () => expect((await shownFor(given, dashboardHost)).serialNumber).not.toBe(before.serialNumber))
    expect(await given.row(dashboardHost)).toMatchObject({ attempts: 0, failure: null, alerted_at: null })
    expect((await given.events()).map(({ event }) => event)).toEqual(['certificate.failed', 'certificate.renewed'])
  })

  it('and has forgotten the account of this server gets a new account', async () => {
    await using given = await authority.world()
    await given.lead()
    await shownFor(given, dashboardHost)
    const accounts = () => given.database.query<{ url: string }>('select url from acme_accounts')
    const [before] = await accounts()
    await given.stop()
    await authority.pebble.stop()
    await authority.pebble.start()
    await given.age(dashboardHost, '61 days')
    await given.lead()
    await until(async () => expect((await given.events()).map(({ event }) => event)).toEqual(['certificate.renewed']))
    const after = await accounts()
    expect(after).toHaveLength(1)
    expect(after[0]?.url).not.toBe(before?.url)
  })
})
