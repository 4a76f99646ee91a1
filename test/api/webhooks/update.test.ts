import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { failsForAnHour, ping, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const newProject = async () => (await server.client.projects.create({ body: { name: 'p' } })).id
const create = (body: { url?: string; events?: string[]; rate?: number; project_id?: string } = {}) =>
  server.client.webhooks.create({ body: { url: 'https://example.com', ...body } as { url: string } })

describe('PATCH /webhooks/:id', () => {
  it('changes the given fields and no others', async () => {
    const projectId = await newProject()
    const { secret: _, ...made } = await create({ events: ['ping'], rate: 5 })
    const update = (body: object) => succeed(caller(), 'webhooks.update', { id: made.id }, body)
    expect(await update({})).toEqual(made)
    expect(await update({ url: 'https://example.org/x' })).toEqual({ ...made, url: 'https://example.org/x' })
    expect(await update({ events: ['file.*'], rate: null, project_id: projectId })).toEqual({
      ...made,
      url: 'https://example.org/x',
      events: ['file.*'],
      rate: null,
      project_id: projectId,
    })
    expect(await update({ project_id: null, url: made.url, events: ['ping'], rate: 5 })).toEqual(made)
  })

  it.each([
    ['an address without protocol', { url: 'example.com' }, 'url'],
    ['credentials', { url: 'https://a:b@example.com' }, 'url'],
    ['no events', { events: [] }, 'events'],
    ['an unknown event', { events: ['x'] }, 'events.0'],
    ['an unknown project', { project_id: 'proj_01h455vb4pex5vsknk084sn02q' }, 'project_id'],
    ['an unknown status', { status: 'paused' }, 'status'],
    ['a rate of zero', { rate: 0 }, 'rate'],
    ['a fractional rate', { rate: 1.5 }, 'rate'],
  ])('refuses %s', async (_, body, field) => {
    const { id } = await create()
    const updating = server.client.webhooks.update({ params: { id }, body: body as object })
    await expect(updating).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })

  it('by a key bound to a project cannot move the webhook to another project', async () => {
    const [here, there] = [await newProject(), await newProject()]
    const { id } = await create({ project_id: here })
    const bound = server.clientFor(await server.key({ projectIds: [here] }))
    for (const project_id of [there, null]) {
      const updating = bound.webhooks.update({ params: { id }, body: { project_id } })
      await expect(updating).rejects.toMatchObject({ code: 'forbidden' })
    }
    await bound.webhooks.update({ params: { id }, body: { project_id: here, events: ['ping'] } })
  })

  it('to another address applies to pending deliveries', async () => {
    await using old = await testEndpoint(failsForAnHour)
    await using next = await testEndpoint(takes)
    const { id } = await create({ url: old.url })
    const delivery = await ping(server.client, id)
    await server.client.webhooks.update({ params: { id }, body: { url: next.url } })
    await server.client.deliveries.redeliver({ params: { webhook_id: id, id: delivery.id } })
    await next.waitFor(1)
    expect(next.requests[0]?.headers['webhook-id']).toBe(delivery.event_id)
    expect(old.requests).toHaveLength(1)
  })

  it('to disabled keeps pending deliveries until it is enabled again', async () => {
    await using endpoint = await testEndpoint((...given) => (given[2] === 1 ? failsForAnHour : takes)(...given))
    const { id } = await create({ url: endpoint.url })
    const { id: deliveryId } = await ping(server.client, id)
    const update = (status: 'enabled' | 'disabled') =>
      server.client.webhooks.update({ params: { id }, body: { status } })
    expect(await update('disabled')).toMatchObject({ status: 'disabled', disabled_reason: 'user' })
    await server.database.query('update deliveries set next_attempt_at = now() where id = $1', [deliveryId])
    // A delivery to another endpoint shows that the server has read the due deliveries.
    await using other = await testEndpoint(takes)
    await ping(server.client, (await create({ url: other.url })).id)
    expect(endpoint.requests).toHaveLength(1)
    expect(await update('enabled')).toMatchObject({ status: 'enabled', disabled_reason: null })
    await endpoint.waitFor(2)
  })

  it('answers the same 404 as for an id that never existed, and the webhook stays as it is', async () => {
    const { secret: _, ...made } = await create()
    await expectNotFound(server, 'webhooks.update', { id: made.id })
    expect(await server.client.webhooks.get({ params: { id: made.id } })).toEqual(made)
  })
})
