import { afterAll, expect, it } from 'vitest'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { attacks } from '../../harness/attacks/attack.ts'
import type { HostileServer, Tenant } from '../../harness/attacks/server.ts'
import { startChallengeDns } from '../../harness/challenge-dns.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { noCaddy, testAuthority, visit } from '../../harness/edge.ts'
import { certified, dashboardHost, domain, edgeSettings, uploadCertificate } from '../../harness/edge-server.ts'
import { gitServer } from '../../harness/git-server.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { noPebble } from '../../harness/pebble.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

/*
 * A tenant whose app has a domain, on a server with a domain. Every name leads to the server, so DNS alone protects no
 * names.
 */

// The DNS server of the tests comes with Pebble.
const why = (await noCaddy()) ?? (await noPebble())

const most = { domains: 6, ofApp: 3, checks: 6, renewals: 5, uploads: 200 }
const plans = {
  ...shippedPlans,
  free: {
    ...shippedPlans.free,
    requests_per_hour: 100_000,
    domains: most.ofApp,
    account: { domains: most.domains },
  },
}

if (why === null) await declare()
else {
  skipped('attacks by domains', why)
  it.skip('attacks by domains')
}

async function declare(): Promise<void> {
  const cleanup = new AsyncDisposableStack()
  afterAll(() => cleanup.disposeAsync())
  const { environment, httpsPort } = await edgeSettings()
  let dns: ReturnType<typeof startChallengeDns> | undefined
  const settings = async () => {
    dns ??= startChallengeDns().then((started) => cleanup.use(started))
    return { ...environment, FAIRLEAD_OUTBOUND: 'any', FAIRLEAD_DNS_SERVERS: `127.0.0.1:${(await dns).port}` }
  }

  const apps = new Map<string, Promise<{ readonly id: string; readonly host: string }>>()
  /** Deploys an app once, which answers with its name. */
  const appOf = (server: HostileServer, { client, project }: Tenant, name: string) => {
    const key = `${server.mode} ${project} ${name}`
    const found = apps.get(key) ?? deploy()
    apps.set(key, found)
    return found
    async function deploy() {
      await using source = await repository(nodeApp(name))
      await using served = await gitServer(source)
      const made = await deployAndSettle(client, project, { name, git_url: served.url })
      expect(made.status).toBe('running')
      return { id: made.app_id, host: new URL(made.url).hostname }
    }
  }
  const added = async ({ client, project }: Tenant, app_id: string, name: string) => {
    const params = { project_id: project, app_id }
    const { id } = await client.domains.create({ params, body: { name, redirect: false } })
    const get = () => client.domains.get({ params: { ...params, id } })
    return { id, get, remove: () => client.domains.delete({ params: { ...params, id } }) }
  }
  const textAt = async (host: string) => (await visit({ host, port: httpsPort })).text

  attacks({ settings, plans }, (attack) => {
    attack(
      {
        id: 'domain-of-server',
        topic: 'Domains',
        held: 'No domain is a name of the server, or the address of an app of another account, in any way to write it',
      },
      async (server) => {
        const { attacker, victim } = server
        const app = await appOf(server, attacker, 'theirs')
        const { host } = await appOf(server, victim, 'shop')
        const names = [domain, dashboardHost, host, `x.${domain}`].flatMap((name) => [
          ...[name, name.toUpperCase(), `*.${name}`, `${name}.`, ` ${name} `, name.replaceAll('.', '。')],
          ...[name.replace('e', 'ｅ'), name.replace('e', '\u0435'), `${name}:443`, `https://${name}/`, `${name}\0.com`],
        ])
        for (const name of names) {
          await expect(added(attacker, app.id, name), name).rejects.toMatchObject({ code: 'invalid_request' })
        }
      },
    )

    attack(
      {
        id: 'domain-taken',
        topic: 'Domains',
        held: 'A domain of another account, and every name beside and below it, is had by its TXT record alone',
      },
      async (server) => {
        const { attacker, victim } = server
        const name = `www.victims-${server.mode}.com`
        const shop = await appOf(server, victim, 'shop')
        const own = await added(victim, shop.id, name)
        await expect.poll(async () => (await own.get()).status).toBe('active')
        await uploadCertificate(victim.client, name)
        await certified(name, httpsPort)

        const app = await appOf(server, attacker, 'theirs')
        const parent = name.slice('www.'.length)
        for (const wanted of [name.toUpperCase(), parent, `*.${parent}`, `a.${name}`, `*.${name}`]) {
          const { get, remove } = await added(attacker, app.id, wanted)
          await expect.poll(async () => (await get()).problems.map(({ code }) => code)).toContain('ownership_unproven')
          expect(await get()).toMatchObject({ status: 'pending', primary: false })
          await remove()
        }
        expect((await own.get()).status).toBe('active')
        expect(await textAt(name)).toBe('shop')
      },
    )

    attack(
      {
        id: 'certificate-of-others',
        topic: 'Domains',
        held: 'A certificate that a tenant uploads is shown for domains of its own account alone',
      },
      async (server) => {
        const { attacker, victim, operator } = server
        const shop = await appOf(server, victim, 'shop')
        const theirs = await appOf(server, attacker, 'theirs')
        await uploadCertificate(operator.client, dashboardHost, shop.host)
        for (const host of [dashboardHost, shop.host]) await certified(host, httpsPort)
        const other = { host: `www.other-${server.mode}.com`, port: httpsPort }
        await uploadCertificate(
          attacker.client,
          domain,
          `*.${domain}`,
          dashboardHost,
          shop.host,
          theirs.host,
          other.host,
        )
        expect(await textAt(shop.host)).toBe('shop')
        for (const host of [domain, other.host]) {
          await expect(visit({ host, port: httpsPort }), host).rejects.toThrow(/alert|ECONNRESET/)
        }
        const own = await added(attacker, theirs.id, other.host)
        await certified(other.host, httpsPort)
        expect(await textAt(other.host)).toBe('theirs')
        await own.remove()
      },
    )

    attack(
      {
        id: 'domain-totals',
        topic: 'Domains',
        held: 'An account has a total of domains and certificates, which requests at the same time cannot exceed',
      },
      async (server) => {
        const tenant = await server.tenant('collector')
        const [one, two, three] = await Promise.all(['one', 'two', 'three'].map((name) => appOf(server, tenant, name)))
        const ids = [one, two, three].map((app) => app?.id ?? '')
        const ask = (id: string) =>
          Array.from({ length: 5 }, (_, index) => added(tenant, id, `www.many${index}-${id.slice(-8)}.com`))
        // One app reaches its limit first; the others share the account's remaining domains.
        const [first = '', ...others] = ids
        const results = await Promise.allSettled(ask(first))
        results.push(...(await Promise.allSettled(others.flatMap(ask))))
        const { client, project } = tenant
        const counts = await Promise.all(
          ids.map(
            async (app_id) => (await client.domains.list({ params: { project_id: project, app_id } })).domains.length,
          ),
        )
        expect(counts[0]).toBe(most.ofApp)
        expect(Math.max(...counts)).toBe(most.ofApp)
        expect(counts.reduce((total, count) => total + count)).toBe(most.domains)
        const reasons = results.filter(({ status }) => status === 'rejected')
        expect(reasons).toHaveLength(results.length - most.domains)

        const pem = await (await testAuthority()).issue('www.uploads.com')
        const at = pem.indexOf('-----BEGIN CERTIFICATE-----')
        const body = { certificate: pem.slice(at), private_key: pem.slice(0, at) }
        const uploads = Array.from({ length: most.uploads + 5 }, () => client.certificates.create({ body }))
        const kept = (await Promise.allSettled(uploads)).filter(({ status }) => status === 'fulfilled')
        expect(kept).toHaveLength(most.uploads)
      },
    )

    attack(
      {
        id: 'domain-requests',
        topic: 'Domains',
        held: 'Nobody makes the server ask DNS or the authority as often as they like',
      },
      async (server) => {
        const { client, project } = server.attacker
        const { id: app_id } = await appOf(server, server.attacker, 'theirs')
        const name = `www.asked-${server.mode}.com`
        const own = await added(server.attacker, app_id, name)
        await expect.poll(async () => (await own.get()).status).toBe('active')
        const check = () => client.domains.check({ params: { project_id: project, app_id, id: own.id } })
        const checks = await Promise.allSettled(Array.from({ length: 20 }, check))
        expect(checks.filter(({ status }) => status === 'fulfilled')).toHaveLength(most.checks)
        const certificate = async () =>
          (await client.certificates.list({})).certificates.find(({ names }) => names.includes(name))
        await expect.poll(certificate).toBeDefined()
        const { id = '' } = (await certificate()) ?? {}
        // A repeated request for a running check changes nothing, and does not count.
        const renewed = () => client.certificates.renew({ params: { id } }).then(() => 'renewed', String)
        await expect.poll(renewed).toContain(`renewed by hand ${most.renewals} times within an hour`)
      },
    )
  })
}
