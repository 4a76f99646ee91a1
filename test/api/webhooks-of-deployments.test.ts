import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../harness/deployments.ts'
import { testReceiver } from '../harness/receiver.ts'
import { nodeApp, type Repository, repository } from '../harness/repository.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
let app: Repository
beforeAll(async () => {
  server = await testServer()
  app = await repository(nodeApp('hello'))
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await app[Symbol.asyncDispose]()
})

const newProject = async () => (await server.client.projects.create({ body: { name: 'p' } })).id

describe('deployment.succeeded', () => {
  it('arrives signed, in the specified form, when the deployment runs', async () => {
    await using receiver = await testReceiver()
    const projectId = await newProject()
    const hook = await server.client.webhooks.create({ body: { url: receiver.url, project_id: projectId } })
    receiver.trust(hook.secret)
    const deployment = await deployAndSettle(server.client, projectId, { name: 'web', git_url: app.url })
    const event = await receiver.waitFor(({ data }) => data.deployment_id === deployment.id)
    expect(event).toMatchObject({
      event: 'deployment.succeeded',
      data: { deployment_id: deployment.id, project_id: projectId, url: deployment.url },
    })
    expect(event.id).toMatch(/^evt_/)
  })

  it('is not sent to webhooks of other projects or other accounts', async () => {
    await using receiver = await testReceiver()
    const [here, there] = [await newProject(), await newProject()]
    const account = await server.accounts.create({ name: 'other', plan: 'pro' })
    const other = server.clientFor(await server.key({ accountId: account.id }))
    await server.client.webhooks.create({ body: { url: receiver.url, project_id: there } })
    await other.webhooks.create({ body: { url: receiver.url } })
    const deployment = await deployAndSettle(server.client, here, { name: 'web', git_url: app.url })
    const deliveries = await server.database.query(
      `select 1 from deliveries join webhooks on webhooks.id = webhook_id join events on events.id = event_id
       where webhooks.url = $1 and events.body like $2`,
      [receiver.url, `%${deployment.id}%`],
    )
    expect(deliveries).toEqual([])
  })

  it('is sent again after a failure, with the same id and body and a new timestamp', async () => {
    const requests: { id: string; timestamp: string; body: string }[] = []
    const twice = Promise.withResolvers<void>()
    const flaky = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const header = (name: string) => String(request.headers[`webhook-${name}`])
      requests.push({ id: header('id'), timestamp: header('timestamp'), body: Buffer.concat(chunks).toString() })
      response.statusCode = requests.length === 1 ? 500 : 204
      response.end()
      if (requests.length === 2) twice.resolve()
    }).listen(0, '127.0.0.1')
    await once(flaky, 'listening')
    const url = `http://127.0.0.1:${(flaky.address() as AddressInfo).port}/`
    const projectId = await newProject()
    await server.client.webhooks.create({ body: { url, project_id: projectId } })
    await deployAndSettle(server.client, projectId, { name: 'web', git_url: app.url })
    await twice.promise
    flaky.closeAllConnections()
    flaky.close()
    const [first, second] = requests
    expect(second?.id).toBe(first?.id)
    expect(second?.body).toBe(first?.body)
    // The first wait of the schedule is 5 s, with a jitter of 20 %.
    expect(Number(second?.timestamp) - Number(first?.timestamp)).toBeGreaterThanOrEqual(3)
  })

  it('does not follow a redirect', async () => {
    await using receiver = await testReceiver()
    const redirecting = createServer((_, response) => response.writeHead(302, { location: receiver.url }).end())
    redirecting.listen(0, '127.0.0.1')
    await once(redirecting, 'listening')
    const url = `http://127.0.0.1:${(redirecting.address() as AddressInfo).port}/`
    const projectId = await newProject()
    const hook = await server.client.webhooks.create({ body: { url, project_id: projectId } })
    receiver.trust(hook.secret)
    await deployAndSettle(server.client, projectId, { name: 'web', git_url: app.url })
    await expect
      .poll(() => server.database.query('select last_status from deliveries where webhook_id = $1', [hook.id]), {
        timeout: 30_000,
      })
      .toEqual([{ last_status: 302 }])
    redirecting.closeAllConnections()
    redirecting.close()
    expect(receiver.received).toEqual([])
  })
})
