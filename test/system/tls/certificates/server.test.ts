import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import type { Client } from '@fairlead/server/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ChallengeDns, startChallengeDns } from '../../../harness/challenge-dns.ts'
import { dial, noCaddy } from '../../../harness/edge.ts'
import { dashboardHost, domain, type EdgeSettings, edgeSettings } from '../../../harness/edge-server.ts'
import { takes, testEndpoint } from '../../../harness/endpoint.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { noPebble, type Pebble, startPebble } from '../../../harness/pebble.ts'
import { freePort } from '../../../harness/ports.ts'
import { ownServerWithProject } from '../../../harness/project.ts'
import { until } from '../authority.ts'
import { startVisitors } from '../visitors.ts'

const why = (await noCaddy()) ?? (await noPebble())
if (why !== null) skipped('a server that obtains certificates', why)

describe.skipIf(why !== null)('a server that obtains certificates', () => {
  const cleanup = new AsyncDisposableStack()
  let dns: ChallengeDns
  let pebble: Pebble
  let settings: EdgeSettings
  let given: Awaited<ReturnType<typeof ownServerWithProject>>
  let client: Client
  /** The host name of an app. */
  let host: string
  beforeAll(async () => {
    settings = await edgeSettings()
    dns = cleanup.use(await startChallengeDns())
    const ports = { httpPort: settings.httpPort, tlsPort: await freePort() }
    const lifetimeSeconds = 90 * 24 * 60 * 60
    pebble = cleanup.use(await startPebble({ ...ports, dnsServer: `127.0.0.1:${dns.port}`, lifetimeSeconds }))
    given = cleanup.use(
      await ownServerWithProject({
        ...{ FAIRLEAD_FILE_SOURCES: tmpdir(), FAIRLEAD_OUTBOUND: 'any', ...settings.environment },
        FAIRLEAD_ACME_URL: pebble.directoryUrl,
        FAIRLEAD_ACME_CA: pebble.caFile,
        FAIRLEAD_DNS_SERVERS: `127.0.0.1:${dns.port}`,
      }),
    )
    client = given.client
    const { status, url } = await given.deploy('web')
    expect(status).toBe('running')
    host = new URL(url).hostname
  })
  afterAll(() => cleanup.disposeAsync())

  const roots = () => pebble.roots()
  /** Visits a host on a new connection. */
  async function visit(to: string, ca: string): Promise<{ readonly status: number; readonly serial: string }> {
    const socket = await dial({ host: to, port: settings.httpsPort }, { ca })
    const serial = socket.getPeerCertificate().serialNumber
    const sent = request({ path: '/healthz', headers: { Host: to }, createConnection: () => socket }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    await answer.toArray()
    socket.destroy()
    return { status: answer.statusCode ?? 0, serial }
  }
  const certificateOf = async (name: string) =>
    (await client.certificates.list({})).certificates.find(
      ({ names, status }) => names.includes(name) && status !== 'revoked',
    )

  it('shows an app’s certificate on the first visit, which waits for it', async () => {
    const ca = await roots()
    expect(await certificateOf(host)).toBeUndefined()
    const first = await visit(host, ca)
    expect(first.status).toBe(200)
    const shown = await certificateOf(host)
    expect(shown).toMatchObject({
      source: 'automatic',
      status: 'valid',
      serial: first.serial,
      project_id: given.projectId,
    })
    await until(async () => expect((await visit(dashboardHost, ca)).status).toBe(200))
    expect(await certificateOf(dashboardHost)).toMatchObject({ project_id: null, app_id: null })
  })

  it('renews it under load, of which no request fails, and reports this by a webhook', async () => {
    const ca = await roots()
    const { serial } = await visit(host, ca)
    await using endpoint = await testEndpoint(takes)
    await client.webhooks.create({ body: { url: endpoint.url, events: ['certificate.*'] } })
    await using visitors = startVisitors({ host, port: settings.httpsPort, ca })
    let last = serial
    for (let renewals = 1; renewals <= 3; renewals++) {
      const before = visitors.requests()
      await until(() => expect(visitors.requests()).toBeGreaterThan(before + 300))
      await given.server.database.query(
        `update certificates set not_before = not_before - interval '61 days', expires_at = expires_at - interval '61 days',
           next_attempt_at = now() where $1 = any(names)`,
        [host],
      )
      last = await until(async () => {
        const renewed = (await certificateOf(host))?.serial ?? ''
        expect(['', last]).not.toContain(renewed)
        return renewed
      })
      await until(() => expect(visitors.serials).toContain(last))
    }
    const report = await visitors.stop()
    expect(report.failures).toEqual([])
    expect(report.serials.has(serial)).toBe(true)
    console.info(`Three renewals under ${report.perSecond} requests/s: 0 of ${report.requests} failed.`)
    await endpoint.waitFor(3)
    const renewed = await certificateOf(host)
    expect(endpoint.requests.map(({ body }) => JSON.parse(body))).toContainEqual({
      event: 'certificate.renewed',
      timestamp: expect.any(String),
      data: {
        ...{ certificate_id: renewed?.id, names: [host], project_id: given.projectId, app_id: renewed?.app_id },
        expires_at: renewed?.expires_at,
      },
    })
  })

  it('renews and revokes it by the API', async () => {
    const ca = await roots()
    const before = await visit(host, ca)
    const { id = '' } = (await certificateOf(host)) ?? {}
    await client.certificates.renew({ params: { id } })
    const renewed = await until(async () => {
      const visited = await visit(host, ca)
      expect(visited.serial).not.toBe(before.serial)
      return visited
    })
    await client.certificates.revoke({ params: { id } })
    await until(async () => expect((await client.certificates.get({ params: { id } })).status).toBe('revoked'))
    const after = await visit(host, ca)
    expect(after.serial).not.toBe(renewed.serial)
    expect(await pebble.statusOf(renewed.serial)).toBe('Revoked')
    expect(await pebble.statusOf(after.serial)).toBe('Valid')
  })

  it('requests no name that is not served here', async () => {
    const ca = await roots()
    const orders = async () => (await given.server.database.query('select id from acme_orders')).length
    const before = await orders()
    const names = Array.from({ length: 5_000 }, (_, index) => [
      `x${index}.${domain}`,
      `x${index}.elsewhere.test`,
    ]).flat()
    const visitor = async () => {
      for (let name = names.pop(); name !== undefined; name = names.pop()) {
        await expect(dial({ host: name, port: settings.httpsPort }, { ca })).rejects.toThrow()
      }
    }
    const began = performance.now()
    await Promise.all(Array.from({ length: 20 }, visitor))
    console.info(
      `10,000 names that nobody has: none was shown a certificate, in ${Math.round((performance.now() - began) / 1_000)} s.`,
    )
    expect(await orders()).toBe(before)
    const { certificates } = await client.certificates.list({})
    expect(new Set(certificates.flatMap((each) => each.names))).toEqual(new Set([host, dashboardHost]))
  })

  it('shows existing certificates after a restart', async () => {
    const ca = await roots()
    const { serial } = await visit(host, ca)
    await given.server.restart()
    expect((await visit(host, ca)).serial).toBe(serial)
  })

  it('reports endangered ones by /readyz and metrics, without the names of tenants', async () => {
    await given.server.database.query('update certificates set alerted_at = now() where revoked_at is null')
    await given.server.restart()
    await until(async () => {
      const answer = await (await fetch(`${given.server.url}/readyz`)).json()
      expect(answer).toMatchObject({
        status: 'ready',
        problems: expect.arrayContaining([
          `the certificate of ${dashboardHost} cannot be obtained or renewed`,
          '1 certificate of apps cannot be obtained or renewed',
        ]),
      })
    })
  })
})
