import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { deliveryThat, failsForAnHour, ping, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const hook = async (url: string) => (await server.client.webhooks.create({ body: { url } })).id

describe('POST /webhooks/:id/recover', () => {
  it('resends the deliveries that have failed since then, and no others', async () => {
    let broken = true
    await using endpoint = await testEndpoint((...given) => (broken ? failsForAnHour : takes)(...given))
    const id = await hook(endpoint.url)
    const failed = [await ping(server.client, id), await ping(server.client, id), await ping(server.client, id)]
    const [old, ...recent] = failed.map((delivery) => delivery.id)
    await server.database.query(
      `update deliveries set status = 'failed', next_attempt_at = null, finished_at = now() where webhook_id = $1`,
      [id],
    )
    await server.database.query(`update deliveries set finished_at = '2020-01-01' where id = $1`, [old])
    broken = false
    const arrived = await ping(server.client, id)
    const recovered = await succeed(caller(), 'webhooks.recover', { id }, { since: '2021-01-01T00:00:00+02:00' })
    expect(recovered).toMatchObject({ id, recovered: 2 })
    for (const one of recent) {
      const delivery = await deliveryThat(
        server.client,
        { webhook_id: id, id: String(one) },
        ({ status }) => status === 'succeeded',
      )
      expect(delivery.attempts).toBe(2)
    }
    const unchanged = await server.client.deliveries.get({ params: { webhook_id: id, id: String(old) } })
    expect(unchanged).toMatchObject({ status: 'failed', attempts: 1 })
    expect(endpoint.requests.filter(({ headers }) => headers['webhook-id'] === arrived.event_id)).toHaveLength(1)
  })

  it.each([[undefined], ['yesterday'], ['2026-13-01T00:00:00Z'], [5]])('refuses the time %s', async (since) => {
    const id = await hook('https://example.com')
    const recovering = server.client.webhooks.recover({ params: { id }, body: { since } as { since: string } })
    await expect(recovering).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'since' } })
  })

  it.each(['0000-01-01T00:00:00Z', '0001-01-01T00:00:00+14:00', '9999-12-31T23:59:59-14:00'])(
    'accepts the time %s',
    async (since) => {
      const id = await hook('https://example.com')
      expect(await server.client.webhooks.recover({ params: { id }, body: { since } })).toMatchObject({ recovered: 0 })
    },
  )

  it('refuses a disabled webhook', async () => {
    const id = await hook('https://example.com')
    await server.client.webhooks.update({ params: { id }, body: { status: 'disabled' } })
    const recovering = server.client.webhooks.recover({ params: { id }, body: { since: '2026-01-01T00:00:00Z' } })
    await expect(recovering).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'status' } })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    await expectNotFound(server, 'webhooks.recover', { id: await hook('https://example.com') })
  })
})
