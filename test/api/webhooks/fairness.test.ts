import { afterAll, beforeAll, expect, it } from 'vitest'
import { deliveryThat, ping, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const hook = async (url: string, rate?: number) =>
  (await server.client.webhooks.create({ body: { url, rate: rate ?? null } })).id
const sendMany = (id: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => server.client.webhooks.test({ params: { id } })))

it('an endpoint that hangs delays no other endpoint, whatever its backlog', async () => {
  await using hanging = await testEndpoint(() => undefined)
  await using healthy = await testEndpoint(takes)
  const [slow, good] = [await hook(hanging.url), await hook(healthy.url)]
  await sendMany(slow, 100)
  // It has ten requests at a time, and all of them hang now.
  await hanging.waitFor(10)
  await sendMany(good, 50)
  await healthy.waitFor(50)
  expect(hanging.requests.length).toBeLessThan(100)
  await server.client.webhooks.delete({ params: { id: slow } })
})

it('an endpoint with a low rate delays no other endpoint', async () => {
  await using one = await testEndpoint(takes)
  await using other = await testEndpoint(takes)
  const [limited, free] = [await hook(one.url, 1), await hook(other.url)]
  await sendMany(limited, 60)
  await sendMany(free, 50)
  await other.waitFor(50)
  // The endpoint gets one request per second, so the others arrived in far less time than its backlog takes.
  expect(one.requests.length).toBeLessThan(60)
  await server.client.webhooks.delete({ params: { id: limited } })
})

it('an endpoint that has failed gets one request at a time, until it accepts one', async () => {
  let most = 0
  let open = 0
  let broken = true
  let accepted = 0
  const twoAtOnce = Promise.withResolvers<void>()
  const failing = await testEndpoint((response) => {
    open++
    most = Math.max(most, open)
    if (open > 1) twoAtOnce.resolve()
    const answer = () => {
      open--
      response.writeHead(broken ? 500 : 204).end()
    }
    // After the first success it holds each request until another one comes: they need not overlap by chance.
    if (broken || accepted++ === 0) setTimeout(answer, 20)
    else void twoAtOnce.promise.then(() => setTimeout(answer, 20))
  })
  await using endpoint = failing
  const id = await hook(endpoint.url)
  await ping(server.client, id)
  await sendMany(id, 30)
  await endpoint.waitFor(31)
  expect(most).toBe(1)
  broken = false
  const last = (await sendMany(id, 40)).at(-1)
  await deliveryThat(server.client, { webhook_id: id, id: String(last?.id) }, ({ status }) => status === 'succeeded')
  expect(most).toBeGreaterThan(1)
  expect(most).toBeLessThanOrEqual(10)
})

it('a backlog larger than the queue in memory arrives completely, each delivery once', async () => {
  await using endpoint = await testEndpoint(takes)
  const id = await hook(endpoint.url)
  await sendMany(id, 300)
  await endpoint.waitFor(300)
  const ids = endpoint.requests.map(({ headers }) => headers['webhook-id'])
  expect(new Set(ids).size).toBe(300)
  const { deliveries } = await server.client.deliveries.list({ params: { webhook_id: id }, query: { limit: 1000 } })
  expect(deliveries.every(({ event_id }) => ids.includes(event_id))).toBe(true)
})
