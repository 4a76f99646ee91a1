import { parseSecret, verify } from '@fairlead/receiver'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { answers, type EndpointRequest, endpoint, ping, takes } from '../harness/endpoint.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const unknown = 'wh_01h455vb4pex5vsknk084sn02q'
const create = (body: { url?: string; events?: string[]; rate?: number; project_id?: string } = {}) =>
  server.client.webhooks.create({ body: { url: 'https://example.com', ...body } as { url: string } })
const newProject = async () => (await server.client.projects.create({ body: { name: 'p' } })).id

const signers = ({ headers, body }: EndpointRequest, secrets: readonly string[]): boolean[] =>
  secrets.map((secret) => {
    try {
      verify({
        keys: [parseSecret(secret)],
        id: String(headers['webhook-id']),
        timestamp: String(headers['webhook-timestamp']),
        signature: String(headers['webhook-signature']),
        body: Buffer.from(body),
        now: Date.now,
      })
      return true
    } catch {
      return false
    }
  })

describe('the events of a receiver', () => {
  it('may be names, groups and everything, each kept once', async () => {
    const made = await create({ events: ['deployment.*', 'ping', 'deployment.*', 'database.failed'] })
    expect(made.events).toEqual(['deployment.*', 'ping', 'database.failed'])
  })

  it.each(['deployment', 'deployment.', '*.succeeded', 'deployment.*.x', 'app.*', 'DEPLOYMENT.*', ''])(
    'are refused as "%s", with a list of those that there are',
    async (pattern) => {
      await expect(create({ events: [pattern] })).rejects.toMatchObject({
        details: { field: 'events.0' },
        message: expect.stringMatching(/must be one of: \*, deployment\.\*, .*deployment\.succeeded.*ping/),
      })
    },
  )
})

describe('webhooks.get', () => {
  it('gives the receiver without its secret', async () => {
    const { secret, ...made } = await create({ rate: 5 })
    expect(await server.client.webhooks.get({ params: { id: made.id } })).toEqual(made)
    expect(made).toMatchObject({ rate: 5, disabled_reason: null })
    expect(secret).toMatch(/^whsec_/)
  })

  it("does not know others' receivers", async () => {
    const made = await create()
    const account = await server.accounts.create({ name: 'other', plan: 'pro' })
    const foreign = server.clientFor(await server.key({ accountId: account.id }))
    for (const call of [
      () => foreign.webhooks.get({ params: { id: made.id } }),
      () => foreign.webhooks.update({ params: { id: made.id }, body: {} }),
      () => foreign.webhooks.rotateSecret({ params: { id: made.id }, body: {} }),
      () => foreign.webhooks.test({ params: { id: made.id } }),
      () => foreign.webhooks.recover({ params: { id: made.id }, body: { since: '2026-01-01T00:00:00Z' } }),
      () => foreign.deliveries.list({ params: { webhook_id: made.id } }),
      () => server.client.webhooks.get({ params: { id: unknown } }),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'not_found' })
    }
  })

  it('needs a key that may read, and changes one that may write', async () => {
    const { id } = await create()
    const reader = server.clientFor(await server.key({ preset: 'read' }))
    await reader.webhooks.get({ params: { id } })
    await expect(reader.webhooks.update({ params: { id }, body: {} })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(reader.webhooks.test({ params: { id } })).rejects.toMatchObject({ code: 'forbidden' })
  })
})

describe('webhooks.update', () => {
  it('changes what is given and nothing else', async () => {
    const projectId = await newProject()
    const { secret: _, ...made } = await create({ events: ['ping'], rate: 5 })
    const update = (body: object) => server.client.webhooks.update({ params: { id: made.id }, body })
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
    ['a rate that is not whole', { rate: 1.5 }, 'rate'],
  ])('refuses %s', async (_, body, field) => {
    const { id } = await create()
    const updating = server.client.webhooks.update({ params: { id }, body: body as object })
    await expect(updating).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })

  it('by a key that is bound to a project cannot lead out of it', async () => {
    const [here, there] = [await newProject(), await newProject()]
    const { id } = await create({ project_id: here })
    const bound = server.clientFor(await server.key({ projectIds: [here] }))
    for (const project_id of [there, null]) {
      const updating = bound.webhooks.update({ params: { id }, body: { project_id } })
      await expect(updating).rejects.toMatchObject({ code: 'forbidden' })
    }
    await bound.webhooks.update({ params: { id }, body: { project_id: here, events: ['ping'] } })
  })

  it('to another address holds for the next attempt of what waits', async () => {
    await using old = await endpoint(answers(500))
    await using next = await endpoint(takes)
    const { id } = await create({ url: old.url })
    const delivery = await ping(server.client, id)
    await server.client.webhooks.update({ params: { id }, body: { url: next.url } })
    await server.client.deliveries.redeliver({ params: { webhook_id: id, id: delivery.id } })
    await next.waitFor(1)
    expect(next.requests[0]?.headers['webhook-id']).toBe(delivery.event_id)
    expect(old.requests).toHaveLength(1)
  })

  it('to disabled keeps what waits until it is enabled again', async () => {
    await using receiver = await endpoint((response, _, count) => response.writeHead(count === 1 ? 500 : 204).end())
    const { id } = await create({ url: receiver.url })
    const { id: deliveryId } = await ping(server.client, id)
    const update = (status: 'enabled' | 'disabled') =>
      server.client.webhooks.update({ params: { id }, body: { status } })
    expect(await update('disabled')).toMatchObject({ status: 'disabled', disabled_reason: 'user' })
    await server.database.query('update deliveries set next_attempt_at = now() where id = $1', [deliveryId])
    // Another receiver's delivery shows that the server has looked at what is due.
    await using other = await endpoint(takes)
    await ping(server.client, (await create({ url: other.url })).id)
    expect(receiver.requests).toHaveLength(1)
    expect(await update('enabled')).toMatchObject({ status: 'enabled', disabled_reason: null })
    await receiver.waitFor(2)
  })
})

describe('webhooks.rotateSecret', () => {
  it('lets both secrets sign for the overlap, and the new one alone afterwards', async () => {
    await using receiver = await endpoint(takes)
    const { id, secret: old } = await create({ url: receiver.url })
    const { secret, ...shown } = await server.client.webhooks.rotateSecret({ params: { id }, body: {} })
    expect(shown).toEqual(await server.client.webhooks.get({ params: { id } }))
    expect(secret).not.toBe(old)
    await ping(server.client, id)
    const [{ hours } = {}] = await server.database.query<{ hours: number }>(
      'select extract(epoch from previous_secret_until - now())::float / 3600 as hours from webhooks where id = $1',
      [id],
    )
    expect(hours).toBeCloseTo(24, 1)
    await server.database.query('update webhooks set previous_secret_until = now() where id = $1', [id])
    await ping(server.client, id)
    expect(receiver.requests.map((request) => signers(request, [old, secret]))).toEqual([
      [true, true],
      [false, true],
    ])
  })

  it('without an overlap ends the old secret at once, and a second rotation ends the first secret', async () => {
    await using receiver = await endpoint(takes)
    const { id, secret: first } = await create({ url: receiver.url })
    const rotate = async (overlap_hours: number) =>
      (await server.client.webhooks.rotateSecret({ params: { id }, body: { overlap_hours } })).secret
    const second = await rotate(0)
    await ping(server.client, id)
    const third = await rotate(168)
    await ping(server.client, id)
    expect(receiver.requests.map((request) => signers(request, [first, second, third]))).toEqual([
      [false, true, false],
      [false, true, true],
    ])
  })

  it.each([-1, 169, 'a day'])('refuses an overlap of %s', async (overlap_hours) => {
    const { id } = await create()
    const rotating = server.client.webhooks.rotateSecret({ params: { id }, body: { overlap_hours } as object })
    await expect(rotating).rejects.toMatchObject({ details: { field: 'overlap_hours' } })
  })

  it('keeps both secrets encrypted', async () => {
    const { id, secret: old } = await create()
    const { secret } = await server.client.webhooks.rotateSecret({ params: { id }, body: {} })
    const [row] = await server.database.query<{ secret: Buffer; previous_secret: Buffer }>(
      'select secret, previous_secret from webhooks where id = $1',
      [id],
    )
    for (const sealed of [row?.secret, row?.previous_secret]) {
      expect(sealed?.includes(old)).toBe(false)
      expect(sealed?.includes(secret)).toBe(false)
    }
  })
})

describe('webhooks.test', () => {
  it('sends a ping whatever the receiver asked for, to it alone', async () => {
    await using receiver = await endpoint(takes)
    await using other = await endpoint(takes)
    const { id } = await create({ url: receiver.url, events: ['deployment.failed'] })
    await create({ url: other.url })
    const made = await server.client.webhooks.test({ params: { id } })
    expect(made).toMatchObject({ webhook_id: id, event: 'ping', status: 'pending', attempts: 0 })
    await receiver.waitFor(1)
    expect(JSON.parse(receiver.requests[0]?.body ?? '')).toEqual({
      event: 'ping',
      timestamp: expect.stringMatching(/Z$/),
      data: { webhook_id: id },
    })
    expect(other.requests).toEqual([])
  })
})

describe('webhooks.delete', () => {
  it('takes the deliveries along, and nothing is sent any more', async () => {
    await using receiver = await endpoint(answers(500))
    const { id } = await create({ url: receiver.url })
    await ping(server.client, id)
    await server.client.webhooks.delete({ params: { id } })
    await expect(server.client.deliveries.list({ params: { webhook_id: id } })).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await server.database.query('select 1 from deliveries where webhook_id = $1', [id])).toEqual([])
  })
})
