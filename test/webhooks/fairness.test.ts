import { afterAll, beforeAll, expect, it } from 'vitest'
import { deliveryThat, endpoint, ping, takes } from '../harness/endpoint.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const hook = async (url: string, rate?: number) =>
  (await server.client.webhooks.create({ body: { url, rate: rate ?? null } })).id
const sendMany = (id: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => server.client.webhooks.test({ params: { id } })))

it('a receiver that hangs delays no other one, whatever waits for it', async () => {
  await using hanging = await endpoint(() => undefined)
  await using healthy = await endpoint(takes)
  const [slow, good] = [await hook(hanging.url), await hook(healthy.url)]
  await sendMany(slow, 100)
  // As many as it has places: from here on it hangs with all of them.
  await hanging.waitFor(10)
  await sendMany(good, 50)
  await healthy.waitFor(50)
  expect(hanging.requests.length).toBeLessThan(100)
  await server.client.webhooks.delete({ params: { id: slow } })
})

it('a receiver with a low rate delays no other one', async () => {
  await using one = await endpoint(takes)
  await using other = await endpoint(takes)
  const [limited, free] = [await hook(one.url, 1), await hook(other.url)]
  await sendMany(limited, 60)
  await sendMany(free, 50)
  await other.waitFor(50)
  // It gets one a second, so the others came in far less time than its backlog takes.
  expect(one.requests.length).toBeLessThan(60)
  await server.client.webhooks.delete({ params: { id: limited } })
})

it('a receiver that has failed is asked one thing at a time, until it takes one', async () => {
  let most = 0
  let open = 0
  let broken = true
  const failing = await endpoint((response) => {
    open++
    most = Math.max(most, open)
    setTimeout(() => {
      open--
      response.writeHead(broken ? 500 : 204).end()
    }, 20)
  })
  await using receiver = failing
  const id = await hook(receiver.url)
  await ping(server.client, id)
  await sendMany(id, 30)
  await receiver.waitFor(31)
  expect(most).toBe(1)
  broken = false
  const last = (await sendMany(id, 40)).at(-1)
  await deliveryThat(server.client, { webhook_id: id, id: String(last?.id) }, ({ status }) => status === 'succeeded')
  expect(most).toBeGreaterThan(1)
  expect(most).toBeLessThanOrEqual(10)
})

it('more than fits into memory arrives in whole, each once', async () => {
  await using receiver = await endpoint(takes)
  const id = await hook(receiver.url)
  await sendMany(id, 300)
  await receiver.waitFor(300)
  const ids = receiver.requests.map(({ headers }) => headers['webhook-id'])
  expect(new Set(ids).size).toBe(300)
  const { deliveries } = await server.client.deliveries.list({ params: { webhook_id: id }, query: { limit: 1000 } })
  expect(deliveries.every(({ event_id }) => ids.includes(event_id))).toBe(true)
})
