import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer as createTcpServer } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { deliveryThat, ping, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

it('sends to the new address a delivery that the old address answers with 410 after the change', async () => {
  await using fresh = await testEndpoint(takes)
  let answerOld: (() => void) | undefined
  await using old = await testEndpoint((response) => {
    answerOld = () => response.writeHead(410).end()
  })
  const { id } = await server.client.webhooks.create({ body: { url: old.url } })
  const sent = await server.client.webhooks.test({ params: { id } })
  await old.waitFor(1)
  await server.client.webhooks.update({ params: { id }, body: { url: fresh.url } })
  answerOld?.()
  const delivery = await deliveryThat(server.client, sent, ({ status }) => status !== 'pending')
  expect(delivery).toMatchObject({ status: 'succeeded', attempts: 2, last_status: 204 })
  expect(fresh.requests).toHaveLength(1)
  expect(await server.client.webhooks.get({ params: { id } })).toMatchObject({ status: 'enabled' })
})

it('describes a malformed response in terms of HTTP', async () => {
  const broken = createTcpServer((socket) => socket.once('data', () => socket.end('HTTP/1.1 000 None\r\n\r\n')))
  broken.listen(0, '127.0.0.1')
  await once(broken, 'listening')
  const { port } = broken.address() as AddressInfo
  const { id } = await server.client.webhooks.create({ body: { url: `http://127.0.0.1:${port}/` } })
  const delivery = await ping(server.client, id)
  expect(delivery).toMatchObject({ last_status: null, last_error: 'The answer is not well-formed HTTP.' })
  broken.close()
})
