import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, withKey } from '../../harness/conformance.ts'
import { ownServer, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)

const create = (body: { url?: string; events?: string[]; rate?: number; project_id?: string } = {}) =>
  server.client.webhooks.create({ body: { url: 'https://example.com', ...body } as { url: string } })
const newProject = async () => (await server.client.projects.create({ body: { name: 'p' } })).id

describe('POST /webhooks', () => {
  it('answers 201 with the secret, the defaults and the address of the webhook', async () => {
    const answer = await ask(caller(), 'webhooks.create', {}, { url: 'https://example.com/hooks' })
    expect(answer.status).toBe(201)
    const body = JSON.parse(answer.text)
    expect(body).toEqual({
      id: expect.stringMatching(/^wh_[0-7][0-9a-hjkmnp-tv-z]{25}$/),
      url: 'https://example.com/hooks',
      events: ['*'],
      project_id: null,
      rate: null,
      status: 'enabled',
      disabled_reason: null,
      created_at: expect.stringMatching(/\.\d{3}Z$/),
      secret: expect.stringMatching(/^whsec_/),
    })
    expect(answer.headers.get('location')).toBe(`/v1/webhooks/${body.id}`)
    expect(Buffer.from(body.secret.replace('whsec_', ''), 'base64')).toHaveLength(32)
  })

  it('stores the secret encrypted', async () => {
    const { secret } = await create()
    const rows = await server.database.query<{ row: string }>('select webhooks::text as row from webhooks')
    expect(rows.some(({ row }) => row.includes(secret))).toBe(false)
  })

  it('accepts event names, groups and *, and removes duplicates', async () => {
    const made = await create({ events: ['deployment.*', 'ping', 'deployment.*', 'database.failed'] })
    expect(made.events).toEqual(['deployment.*', 'ping', 'database.failed'])
  })

  it.each([
    ['no address', {}, 'url'],
    ['no address at all', { url: 'nonsense' }, 'url'],
    ['another protocol', { url: 'ftp://example.com' }, 'url'],
    ['credentials', { url: 'https://user:pass@example.com' }, 'url'],
    ['an unknown event', { url: 'https://example.com', events: ['deployment.exploded'] }, 'events.0'],
    ['no event', { url: 'https://example.com', events: [] }, 'events'],
    ['an unknown project', { url: 'https://example.com', project_id: 'proj_01h455vb4pex5vsknk084sn02q' }, 'project_id'],
    ['a project id with a NUL', { url: 'https://example.com', project_id: 'proj_\0' }, 'project_id'],
  ])('refuses %s', async (_, body, field) => {
    const creating = server.client.webhooks.create({ body: body as { url: string } })
    await expect(creating).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })

  it.each(['deployment', 'deployment.', '*.succeeded', 'deployment.*.x', 'app.*', 'DEPLOYMENT.*', ''])(
    'refuses the event "%s" with a list of the valid events',
    async (pattern) => {
      await expect(create({ events: [pattern] })).rejects.toMatchObject({
        details: { field: 'events.0' },
        message: expect.stringMatching(/must be one of: \*, deployment\.\*, .*deployment\.succeeded.*ping/),
      })
    },
  )

  it('refuses a private address on a public server', async () => {
    await using other = await ownServer({ FAIRLEAD_PUBLIC_HOST: 'apps.example.com' })
    for (const host of ['127.0.0.1', '10.1.2.3', '169.254.169.254', '[::1]', '[::ffff:10.0.0.1]', '[64:ff9b::a00:1]']) {
      const creating = other.client.webhooks.create({ body: { url: `http://${host}/` } })
      await expect(creating, host).rejects.toMatchObject({ details: { field: 'url' } })
    }
    await other.client.webhooks.create({ body: { url: 'http://8.8.8.8/' } })
  })

  it('forbids a key bound to a project to create webhooks for other projects or the whole account', async () => {
    const [here, there] = [await newProject(), await newProject()]
    const bound = server.clientFor(await server.key({ projectIds: [here] }))
    for (const project_id of [there, null]) {
      const creating = bound.webhooks.create({ body: { url: 'https://example.com', project_id } })
      await expect(creating).rejects.toMatchObject({ code: 'forbidden' })
    }
    const made = await bound.webhooks.create({ body: { url: 'https://example.com', project_id: here } })
    expect(made.project_id).toBe(here)
  })

  it('refuses webhooks beyond the limit of the account, even when they are created at the same time', async () => {
    const account = await server.accounts.create({ name: 'collector', plan: 'pro' })
    const client = server.clientFor(await server.key({ accountId: account.id }))
    const one = () => client.webhooks.create({ body: { url: 'https://example.com' } })
    for (let made = 0; made < 95; made++) await one()
    const asked = await Promise.allSettled(Array.from({ length: 10 }, one))
    expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    for (const result of asked) {
      if (result.status === 'fulfilled') continue
      expect(result.reason).toMatchObject({
        code: 'invalid_request',
        message: expect.stringContaining('100 webhooks'),
        details: { max_webhooks: 100 },
      })
    }
    const [{ id } = { id: '' }] = (await client.webhooks.list()).webhooks
    await client.webhooks.delete({ params: { id } })
    await one()
    // Another account has a separate limit.
    await create()
  })
})
