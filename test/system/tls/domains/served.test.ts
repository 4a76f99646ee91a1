import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { edgeSockets } from '../../../../server/src/gateway/gateway.ts'
import { type DnsWorld, dnsWorld } from '../../../harness/dns-world.ts'
import { serverWithApps } from '../../../harness/domains.ts'
import { noCaddy } from '../../../harness/edge.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { freePort } from '../../../harness/ports.ts'
import { ownServerWithProject } from '../../../harness/project.ts'
import { nodeApp, repository } from '../../../harness/repository.ts'

const why = await noCaddy()
if (why !== null) skipped('domains behind an edge', why)

/** Without a listener: no certificate is obtained, and none is needed to see which hosts the gateway answers. */
const noAuthority = 'https://127.0.0.1:1/directory'

async function serverWithDomain(dns: DnsWorld) {
  const [gateway, http, https] = [await freePort(), await freePort(), await freePort()]
  const given = await ownServerWithProject({
    FAIRLEAD_FILE_SOURCES: tmpdir(),
    FAIRLEAD_DOMAIN: 'fairlead.dev',
    FAIRLEAD_ACME_EMAIL: 'operator@fairlead.dev',
    FAIRLEAD_ACME_URL: noAuthority,
    FAIRLEAD_GATEWAY_PORT: String(gateway),
    FAIRLEAD_EDGE_HTTP_PORT: String(http),
    FAIRLEAD_EDGE_HTTPS_PORT: String(https),
    FAIRLEAD_DNS_SERVERS: `${dns.recursive.address}:${dns.recursive.port}`,
  })
  return { ...given, https }
}

/** Sends a request for a host to the gateway, as the edge does. */
async function visitThrough(socketPath: string, host: string, path = '/') {
  const headers = { host, 'x-forwarded-proto': 'https' }
  const sent = request({ socketPath, path, headers, agent: false }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const text = String(Buffer.concat(await answer.toArray()))
  return { status: answer.statusCode, text, location: answer.headers.location }
}

describe.skipIf(why !== null)('a domain behind an edge', () => {
  let dns: DnsWorld
  let given: Awaited<ReturnType<typeof serverWithDomain>>
  let app: { project_id: string; app_id: string }
  const cleanup = new AsyncDisposableStack()
  beforeAll(async () => {
    dns = cleanup.use(await dnsWorld({ 'fairlead.dev': '* A 127.0.0.1', 'example.com': '', 'example.org': '' }))
    given = cleanup.use(await serverWithDomain(dns))
    await given.deploy('shop')
    app = { project_id: given.projectId, app_id: (await given.appNamed('shop')).id }
  })
  afterAll(() => cleanup.disposeAsync())

  const add = (name: string, redirect = false) => given.client.domains.create({ params: app, body: { name, redirect } })
  const read = (id: string) => given.client.domains.get({ params: { ...app, id } })
  const check = (id: string) => given.client.domains.check({ params: { ...app, id } })
  const visit = (host: string, path?: string) => visitThrough(edgeSockets(given.server.dataDirectory).edge, host, path)
  const statusOf = async (host: string) => (await visit(host)).status

  it('is served as soon as its DNS is right, and not before', async () => {
    const { id, records } = await add('shop.example.com')
    const { hostname } = new URL((await given.appNamed('shop')).url)
    expect(records).toEqual([{ type: 'CNAME', name: 'shop.example.com', value: hostname, purpose: 'traffic' }])
    await expect.poll(async () => (await read(id)).checked_at).not.toBeNull()
    expect(await read(id)).toMatchObject({ status: 'pending', problems: [{ severity: 'error' }] })
    expect(await statusOf('shop.example.com')).toBe(404)

    await dns.zone('example.com', `shop CNAME ${hostname}`)
    expect(await check(id)).toMatchObject({ status: 'active', primary: true, problems: [] })
    await expect.poll(() => visit('shop.example.com')).toMatchObject({ status: 200, text: 'here' })
    expect((await given.appNamed('shop')).domains).toEqual(['shop.example.com'])
  })

  it('redirects to the primary domain, and to its successor after its removal', async () => {
    await dns.zone('example.com', 'www A 127.0.0.1\nshop A 127.0.0.1\nother A 127.0.0.1')
    const www = await add('www.example.com', true)
    expect((await check(www.id)).status).toBe('active')
    await expect
      .poll(() => visit('www.example.com', '/a?b=c'))
      .toMatchObject({ status: 308, location: `https://shop.example.com:${given.https}/a?b=c` })
    const { domains } = await given.client.domains.list({ params: app })
    const shop = domains.find(({ name }) => name === 'shop.example.com')
    await given.client.domains.delete({ params: { ...app, id: shop?.id ?? '' } })
    await expect.poll(() => statusOf('shop.example.com')).toBe(404)
    await expect.poll(() => visit('www.example.com')).toMatchObject({ status: 200 })
  })

  it('with an exact name precedes the wildcard', async () => {
    await using there = await repository(nodeApp('there'))
    await given.deploy('all', there.url)
    const all = { project_id: given.projectId, app_id: (await given.appNamed('all')).id }
    await dns.zone('example.com', '* A 127.0.0.1')
    const { id } = await given.client.domains.create({ params: all, body: { name: '*.example.com' } })
    expect((await given.client.domains.check({ params: { ...all, id } })).status).toBe('active')
    await expect.poll(() => visit('any.example.com')).toMatchObject({ text: 'there' })
    expect(await visit('www.example.com')).toMatchObject({ text: 'here' })
  })

  it('moves at once to the account that proves its ownership', async () => {
    await using there = await repository(nodeApp('theirs'))
    const { server } = given
    const { id: accountId } = await server.accounts.create({ name: 'Other', plan: 'pro' })
    const client = server.clientFor(await server.key({ accountId }))
    const { id: project_id } = await client.projects.create({ body: { name: 'p' } })
    const deployed = await client.deployments.create({
      params: { project_id },
      body: { name: 'shop', git_url: there.url },
    })
    await expect
      .poll(async () => (await client.deployments.get({ params: { project_id, id: deployed.id } })).status)
      .toBe('running')
    const [theirs] = (await client.apps.list({ params: { project_id } })).apps
    const params = { project_id, app_id: theirs?.id ?? '' }
    const { id } = await client.domains.create({ params, body: { name: 'www.example.com' } })
    const wanted = await client.domains.check({ params: { ...params, id } })
    expect(wanted.problems.map(({ code }) => code)).toEqual(['ownership_unproven', 'txt_missing'])
    const proof = wanted.records.find(({ type }) => type === 'TXT')
    await dns.zone('example.com', `www A 127.0.0.1\n_fairlead-challenge.www TXT ${proof?.value}`)
    expect((await client.domains.check({ params: { ...params, id } })).status).toBe('active')
    await expect.poll(() => visit('www.example.com')).toMatchObject({ text: 'theirs' })
    const { domains } = await given.client.domains.list({ params: app })
    expect(domains.map(({ status, problems }) => [status, problems[0]?.code])).toEqual([['pending', 'claimed']])
  })

  it('is not served any more as soon as its app is deleted', async () => {
    expect(await statusOf('any.example.com')).toBe(200)
    await given.client.apps.delete({ params: { project_id: given.projectId, id: (await given.appNamed('all')).id } })
    await expect.poll(() => statusOf('any.example.com')).toBe(404)
  })

  it('is served again after a restart of the server, unless it was changed in between', async () => {
    await dns.zone('example.org', '* A 127.0.0.1')
    const [kept, gone] = [await add('kept.example.org'), await add('gone.example.org')]
    for (const { id } of [kept, gone]) expect((await check(id)).status).toBe('active')
    await expect.poll(() => statusOf('gone.example.org')).toBe(200)
    await given.server.restart(async () => {
      await given.server.database.query('delete from domains where id = $1', [gone.id])
    })
    await expect.poll(() => visit('kept.example.org')).toMatchObject({ text: 'here' })
    expect(await statusOf('gone.example.org')).toBe(404)
  })
})

it('a domain behind another proxy is served on the port that all apps share', async () => {
  const gateway = await freePort()
  await using given = await serverWithApps({
    FAIRLEAD_FILE_SOURCES: tmpdir(),
    FAIRLEAD_GATEWAY_PORT: String(gateway),
  })
  await given.deploy('shop')
  const app_id = (await given.appNamed('shop')).id
  const add = async (name: string, redirect: boolean) => {
    const params = { project_id: given.projectId, app_id }
    const { id } = await given.client.domains.create({ params, body: { name, redirect } })
    await given.verify(id)
    return given.client.domains.update({ params: { ...params, id }, body: { redirect } })
  }
  expect(await add('shop.example.com', false)).toMatchObject({ primary: true, certificate: null })
  await add('www.example.com', true)
  const ask = async (host: string) => {
    const sent = request({ host: '127.0.0.1', port: gateway, path: '/a', headers: { host }, agent: false }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    answer.resume()
    return [answer.statusCode, answer.headers.location]
  }
  await expect.poll(() => ask('shop.example.com')).toEqual([200, undefined])
  await expect.poll(() => ask('www.example.com')).toEqual([308, 'https://shop.example.com/a'])
  expect(await ask('other.example.com')).toEqual([404, undefined])
})
