import { createPublicKey, webcrypto, type X509Certificate } from 'node:crypto'
import 'reflect-metadata'
import * as x509 from '@peculiar/x509'
import { describe, expect, it } from 'vitest'
import { acmeProblem } from '../../../harness/acme-proxy.ts'
import { dashboardHost, type World } from '../../../harness/certificates/world.ts'
import { authority as makeAuthority } from '../../../harness/issuing.ts'
import { failureOf, noAuthority, shownFor, until, useAuthority, waitOf } from '../authority.ts'

describe.skipIf(noAuthority !== null)('an existing certificate', () => {
  const authority = useAuthority({ refusedNonces: 0 })

  const obtained = async (given: World) => {
    await given.lead()
    return shownFor(given, dashboardHost)
  }
  const another = (given: World, before: X509Certificate) =>
    until(async () => {
      const certificate = await shownFor(given, dashboardHost)
      expect(certificate.serialNumber).not.toBe(before.serialNumber)
      return certificate
    })

  it('is renewed with another key after two thirds of its lifetime, and not before', async () => {
    await using given = await authority.world()
    const before = await obtained(given)
    const row = await given.row(dashboardHost)
    const days = ((row?.next_attempt_at?.getTime() ?? 0) - (row?.not_before?.getTime() ?? 0)) / 86_400_000
    expect(days).toBeGreaterThan(56)
    expect(days).toBeLessThan(60.1)
    await given.age(dashboardHost, '55 days')
    await given.stop()
    await given.lead()
    expect((await shownFor(given, dashboardHost)).serialNumber).toBe(before.serialNumber)
    await given.age(dashboardHost, '6 days')
    const after = await another(given, before)
    expect(after.publicKey.equals(before.publicKey)).toBe(false)
    expect(await given.events()).toEqual([
      {
        event: 'certificate.renewed',
        timestamp: expect.any(String),
        data: {
          certificate_id: row?.id,
          names: [dashboardHost],
          project_id: null,
          app_id: null,
          expires_at: after.validToDate.toISOString(),
        },
      },
    ])
    expect(await given.rows()).toHaveLength(1)
  })

  it('is in danger once, and again after it has recovered', async () => {
    await using given = await authority.worldBehindProxy()
    await obtained(given)
    const failures = async () => (await given.events()).filter(({ event }) => event === 'certificate.failed')
    for (const incidents of [1, 2]) {
      const { serial } = (await given.row(dashboardHost)) ?? {}
      authority.proxy.answer(({ path }) => (path === '/order-plz' ? acmeProblem(403, 'caa', 'not us') : undefined))
      await given.age(dashboardHost, '61 days')
      for (const attempts of [1, 2, 3]) {
        await until(async () => expect(await failureOf(given, dashboardHost)).toMatchObject({ attempts }))
        if (attempts < 3) await given.age(dashboardHost, '6 minutes')
      }
      expect(await failures()).toHaveLength(incidents)
      authority.proxy.answer(() => undefined)
      await given.age(dashboardHost, '17 minutes')
      await until(async () => expect((await given.row(dashboardHost))?.serial).not.toBe(serial))
    }
    const [first] = await failures()
    expect(first?.data).toMatchObject({
      ...{ names: [dashboardHost], project_id: null, attempts: 2 },
      failure: { code: 'caa', message: expect.stringContaining('CAA record') },
    })
    expect(given.log.filter(({ level, msg }) => level === 40 && msg === 'no certificate yet')).toHaveLength(6)
  })

  it('stays when the new certificate begins tomorrow, and is replaced at that time', async () => {
    await using given = await authority.worldBehindProxy()
    const before = await obtained(given)
    await given.stop()
    await given.age(dashboardHost, '61 days')
    const late = await issueLate()
    authority.proxy.answer(late.answer)
    await given.lead()
    const row = await failureOf(given, dashboardHost)
    expect(row.failure).toEqual({ code: 'not_yet_valid', message: expect.stringContaining('Check the clock') })
    // This server's clock may be wrong, so the server checks every hour.
    expect(waitOf(row)).toBeGreaterThan(59)
    expect(waitOf(row)).toBeLessThan(61)
    expect((await shownFor(given, dashboardHost)).serialNumber).toBe(before.serialNumber)
    const orders = () => authority.proxy.requests.filter(({ path }) => path === '/order-plz').length
    const made = orders()
    late.begin()
    await given.database.query('update certificates set next_attempt_at = now()')
    await another(given, before)
    expect(orders()).toBe(made)
    authority.proxy.answer(() => undefined)
  })

  /** Answers with another authority's certificates for the requested keys, which at first begin tomorrow. */
  async function issueLate() {
    const issuer = await makeAuthority({ to: 100 })
    let csr: x509.Pkcs10CertificateRequest | undefined
    let from = 1
    const certificate = async () => {
      if (csr === undefined) throw new Error('no certificate was asked for')
      const key = createPublicKey({ key: Buffer.from(csr.publicKey.rawData), format: 'der', type: 'spki' })
      return issueFor(issuer, key.export({ format: 'der', type: 'spki' }), from)
    }
    return {
      begin: () => {
        from = -1
      },
      answer: async ({ path, payload }: { readonly path: string; readonly payload: unknown }) => {
        const asked = (payload as { readonly csr?: string } | undefined)?.csr
        if (asked !== undefined) csr = new x509.Pkcs10CertificateRequest(Buffer.from(asked, 'base64url'))
        if (!path.startsWith('/certZ/')) return undefined
        const headers = { 'content-type': 'application/pem-certificate-chain', 'replay-nonce': 'none' }
        return { status: 200, headers, body: await certificate() }
      },
    }
  }

  async function issueFor(issuer: { certificate: string; key: string; name: string }, spki: Buffer, fromDays: number) {
    const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
    const { createPrivateKey } = await import('node:crypto')
    const der = createPrivateKey(issuer.key).export({ format: 'der', type: 'pkcs8' })
    const made = await x509.X509CertificateGenerator.create({
      serialNumber: '0102030405',
      notBefore: new Date(Date.now() + fromDays * 86_400_000),
      notAfter: new Date(Date.now() + 90 * 86_400_000),
      subject: `CN=${dashboardHost}`,
      issuer: issuer.name,
      publicKey: await webcrypto.subtle.importKey('spki', spki, algorithm, true, ['verify']),
      signingKey: await webcrypto.subtle.importKey('pkcs8', der, algorithm, true, ['sign']),
      signingAlgorithm: algorithm,
      extensions: [new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: dashboardHost }])],
    })
    return `${made.toString('pem')}\n${issuer.certificate}`
  }

  it('is revoked at the authority when another one with another key has replaced it', async () => {
    await using given = await authority.world()
    const before = await obtained(given)
    const old = await given.row(dashboardHost)
    const seen: string[] = []
    await given.database.query(
      'update certificates set revocation_requested_at = now(), next_attempt_at = now() where id = $1',
      [old?.id],
    )
    await until(async () => {
      const [row] = await given.rows(`id = '${old?.id}'`)
      seen.push((await shownFor(given, dashboardHost)).serialNumber)
      expect(row?.revoked_at).not.toBeNull()
      expect(row).toMatchObject({ private_key: null, next_attempt_at: null })
    })
    const after = await shownFor(given, dashboardHost)
    expect(after.serialNumber).not.toBe(before.serialNumber)
    expect(after.publicKey.equals(before.publicKey)).toBe(false)
    expect(await authority.pebble.statusOf(before.serialNumber)).toBe('Revoked')
    expect(await authority.pebble.statusOf(after.serialNumber)).toBe('Valid')
    // At every time there was one.
    expect(new Set(seen)).toEqual(new Set([before.serialNumber, after.serialNumber]))
    const current = await given.row(dashboardHost)
    expect((await given.events()).map(({ event, data }) => [event, data['certificate_id']])).toEqual([
      ['certificate.renewed', current?.id],
    ])
  })

  it('is revoked at once when its name is no longer served, even while orders of its names are suspended', async () => {
    await using given = await authority.world()
    const app = await given.app()
    const id = await given.domain(app.id, 'www.left.test')
    await given.lead()
    const { serialNumber } = await shownFor(given, 'www.left.test')
    await given.database.query("update domains set status = 'pending', served_since = null where id = $1", [id])
    const failure = JSON.stringify({ code: 'rate_limited', message: 'Later.' })
    await given.database.query(
      "insert into acme_pauses select scope, now() + interval '1 day', $1 from unnest(array['left.test', 'name:www.left.test']) as scope",
      [failure],
    )
    await given.database.query(
      "update certificates set revocation_requested_at = now(), next_attempt_at = now() where names = '{www.left.test}'",
    )
    await until(async () => expect((await given.row('www.left.test'))?.revoked_at).not.toBeNull())
    expect(await authority.pebble.statusOf(serialNumber)).toBe('Revoked')
    expect(given.shown.has('www.left.test')).toBe(false)
    expect(await given.rows("names = '{www.left.test}'")).toHaveLength(1)
  })
})
