import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  answers,
  deliveryThat,
  type EndpointAnswer,
  failsForAnHour,
  isSignedBy,
  ping,
  takes,
  testEndpoint,
} from '../../harness/endpoint.ts'
import { freePort } from '../../harness/ports.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

let server: OwnServer
beforeAll(async () => {
  server = await ownServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const hook = (url: string) => server.client.webhooks.create({ body: { url } })
const read = (id: string) => server.client.webhooks.get({ params: { id } })

describe('an attempt', () => {
  it('is a success with any 2xx and is recorded with its request and response', async () => {
    await using endpoint = await testEndpoint((response) => response.writeHead(202, { 'x-seen': 'yes' }).end('taken'))
    const { id, secret } = await hook(endpoint.url)
    const delivery = await ping(server.client, id)
    const [request] = endpoint.requests
    expect(delivery).toMatchObject({
      webhook_id: id,
      event_id: request?.headers['webhook-id'],
      event: 'ping',
      status: 'succeeded',
      attempts: 1,
      next_attempt_at: null,
      last_status: 202,
      last_error: null,
      payload: request?.body,
    })
    expect(JSON.parse(delivery.payload)).toMatchObject({ event: 'ping', data: { webhook_id: id } })
    expect(delivery.latest_attempts).toMatchObject([
      {
        number: 1,
        request: { url: endpoint.url, headers: { 'webhook-id': delivery.event_id } },
        response: { status: 202, headers: { 'x-seen': 'yes' }, body: 'taken' },
        error: null,
      },
    ])
    expect(request && isSignedBy(secret, request)).toBe(true)
    expect(JSON.stringify(delivery)).not.toContain(String(request?.headers['webhook-signature']))
  })

  it.each([
    ['a redirect', answers(302, { location: 'http://127.0.0.1:1/' }), 302],
    ['not modified', answers(304), 304],
    ['a client error', answers(404), 404],
    ['a server error', answers(500), 500],
  ])('is a failure with %s', async (_, answer, status) => {
    await using endpoint = await testEndpoint(answer)
    const delivery = await ping(server.client, (await hook(endpoint.url)).id)
    expect(delivery).toMatchObject({ status: 'pending', attempts: 1, last_status: status, last_error: null })
    const wait = Date.parse(String(delivery.next_attempt_at)) - Date.parse(String(delivery.latest_attempts[0]?.at))
    expect(wait).toBeGreaterThanOrEqual(4_000)
  })

  const breaksOff: EndpointAnswer = (response) => {
    response.writeHead(200, { 'content-length': 100 })
    response.write('half')
    setTimeout(() => response.destroy(), 10)
  }
  it.each<[string, EndpointAnswer]>([
    ['a dropped connection', (response) => void response.destroy()],
    ['a truncated response', breaksOff],
  ])('is a failure with %s', async (_, answer) => {
    await using endpoint = await testEndpoint(answer)
    const delivery = await ping(server.client, (await hook(endpoint.url)).id)
    expect(delivery).toMatchObject({ status: 'pending', last_status: null, last_error: expect.any(String) })
  })

  it('is a failure without a listener', async () => {
    const closed = `http://127.0.0.1:${await freePort()}`
    const delivery = await ping(server.client, (await hook(closed)).id)
    expect(delivery).toMatchObject({ status: 'pending', last_error: expect.stringContaining('ECONNREFUSED') })
  })

  it('has 15 s for everything, even when the response never ends', async () => {
    await using endpoint = await testEndpoint((response) => {
      response.writeHead(200)
      const drip = setInterval(() => response.write('.'), 200)
      response.on('close', () => clearInterval(drip))
    })
    const delivery = await ping(server.client, (await hook(endpoint.url)).id)
    expect(delivery).toMatchObject({ status: 'pending', last_error: 'There was no complete answer within 15 s.' })
    expect(delivery.latest_attempts[0]?.duration_ms).toBeGreaterThanOrEqual(14_900)
  })

  it('keeps 16 KiB of a response, even when it is not text', async () => {
    const bytes = Buffer.alloc(40_000, Buffer.of(0, 255, 0x61, 0xe6, 0xbc, 0xa2))
    await using endpoint = await testEndpoint((response) => response.writeHead(200).end(bytes))
    const delivery = await ping(server.client, (await hook(endpoint.url)).id)
    expect(delivery.status).toBe('succeeded')
    const body = delivery.latest_attempts[0]?.response?.body ?? ''
    expect(body).toContain('\ufffd\ufffda漢')
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(16 * 1024)
    expect(Buffer.byteLength(body)).toBeGreaterThan(16 * 1024 - 4)
  })

  it('reuses the connection of the previous attempt', async () => {
    await using endpoint = await testEndpoint((response) => response.writeHead(200).end('ok'))
    const { id } = await hook(endpoint.url)
    for (let round = 0; round < 3; round++) await ping(server.client, id)
    expect(endpoint.requests.map(({ connection }) => connection)).toEqual([1, 1, 1])
  })
})

describe('a delivery', () => {
  it('is retried with the same id and body, a new timestamp and a valid signature', async () => {
    await using endpoint = await testEndpoint((response, _, count) => response.writeHead(count === 1 ? 500 : 204).end())
    const { id, secret } = await hook(endpoint.url)
    const delivery = await ping(server.client, id, 2)
    expect(delivery).toMatchObject({ status: 'succeeded', attempts: 2 })
    const [first, second] = endpoint.requests
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
    const waited = Number(second?.headers['webhook-timestamp']) - Number(first?.headers['webhook-timestamp'])
    // The schedule says 5 s, with a jitter of 20 %.
    expect(waited).toBeGreaterThanOrEqual(3)
    expect(endpoint.requests.every((request) => isSignedBy(secret, request))).toBe(true)
  })

  it('waits as long as the endpoint demands', async () => {
    await using endpoint = await testEndpoint(answers(429, { 'retry-after': '3600' }))
    const delivery = await ping(server.client, (await hook(endpoint.url)).id)
    const wait = Date.parse(String(delivery.next_attempt_at)) - Date.parse(String(delivery.latest_attempts[0]?.at))
    expect(wait).toBeGreaterThanOrEqual(3_600_000)
    expect(wait).toBeLessThan(3_700_000)
  })

  it('has failed for good after its tenth attempt', async () => {
    await using endpoint = await testEndpoint(failsForAnHour)
    const { id } = await hook(endpoint.url)
    const { id: deliveryId } = await ping(server.client, id)
    await server.database.query(`update deliveries set failures = 9, next_attempt_at = now() where id = $1`, [
      deliveryId,
    ])
    // This change sent no notification; another delivery makes the server read the endpoint's due deliveries.
    await ping(server.client, id)
    const delivery = await deliveryThat(server.client, { webhook_id: id, id: deliveryId }, (d) => d.status === 'failed')
    expect(delivery).toMatchObject({ next_attempt_at: null, finished_at: expect.any(String) })
  })
})

describe('an endpoint', () => {
  it('that answers 410 is disabled, and gets nothing more', async () => {
    await using endpoint = await testEndpoint(answers(410))
    const { id } = await hook(endpoint.url)
    expect(await ping(server.client, id)).toMatchObject({ status: 'failed', last_status: 410 })
    expect(await read(id)).toMatchObject({ status: 'disabled', disabled_reason: 'gone' })
    await expect(server.client.webhooks.test({ params: { id } })).rejects.toMatchObject({ code: 'invalid_request' })
  })

  it('with twenty failures over five days is disabled, and is healthy again when it is enabled', async () => {
    await using endpoint = await testEndpoint(failsForAnHour)
    const { id } = await hook(endpoint.url)
    await server.database.query(
      `update webhooks set failing_since = now() - interval '5 days', failed_attempts = 18 where id = $1`,
      [id],
    )
    await ping(server.client, id)
    expect(await read(id)).toMatchObject({ status: 'enabled', disabled_reason: null })
    await ping(server.client, id)
    expect(await read(id)).toMatchObject({ status: 'disabled', disabled_reason: 'failures' })
    await server.client.webhooks.update({ params: { id }, body: { status: 'enabled' } })
    await ping(server.client, id)
    expect(await read(id)).toMatchObject({ status: 'enabled', disabled_reason: null })
  })

  it('that sometimes succeeds is not disabled', async () => {
    await using endpoint = await testEndpoint(takes)
    const { id } = await hook(endpoint.url)
    await server.database.query(
      `update webhooks set failing_since = now() - interval '9 days', failed_attempts = 50 where id = $1`,
      [id],
    )
    await ping(server.client, id)
    const rows = await server.database.query('select failing_since, failed_attempts from webhooks where id = $1', [id])
    expect(rows).toEqual([{ failing_since: null, failed_attempts: 0 }])
  })

  it('with a rate gets no more requests per second', async () => {
    await using endpoint = await testEndpoint(takes)
    const { id } = await server.client.webhooks.create({ body: { url: endpoint.url, rate: 10 } })
    const startedAt = performance.now()
    await Promise.all(Array.from({ length: 11 }, () => server.client.webhooks.test({ params: { id } })))
    await endpoint.waitFor(11)
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(990)
  })
})

it('deliveries continue when the connections to the database are cut', async () => {
  await using endpoint = await testEndpoint(takes)
  const { id } = await hook(endpoint.url)
  for (let round = 1; round <= 3; round++) {
    await server.database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name in ('fairlead-listener', 'fairlead')`,
    )
    // The first request may use a broken connection; the client retries.
    await server.client.webhooks.test({ params: { id } })
    await endpoint.waitFor(round)
  }
})

it('a stopping server waits for a running attempt and records it', async () => {
  const other = await ownServer()
  await using endpoint = await testEndpoint((response) => setTimeout(() => response.writeHead(204).end(), 500))
  const { id } = await other.client.webhooks.create({ body: { url: endpoint.url } })
  await other.client.webhooks.test({ params: { id } })
  await endpoint.waitFor(1)
  await other[Symbol.asyncDispose]()
  expect(endpoint.requests).toHaveLength(1)
  expect(other.log.some((line) => line['msg'] === 'webhook delivered')).toBe(true)
})
