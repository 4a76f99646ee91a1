import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { isSignedBy, ping, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const create = (body: { url?: string } = {}) =>
  server.client.webhooks.create({ body: { url: 'https://example.com', ...body } })

describe('POST /webhooks/:id/rotate-secret', () => {
  it('signs with both secrets during the overlap, and only with the new one afterwards', async () => {
    await using endpoint = await testEndpoint(takes)
    const { id, secret: old } = await create({ url: endpoint.url })
    const { secret, ...shown } = await succeed(caller(), 'webhooks.rotateSecret', { id }, {})
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
    expect(endpoint.requests.map((request) => [old, secret].map((each) => isSignedBy(each, request)))).toEqual([
      [true, true],
      [false, true],
    ])
  })

  it('without an overlap ends the old secret at once, and a second rotation ends the first secret', async () => {
    await using endpoint = await testEndpoint(takes)
    const { id, secret: first } = await create({ url: endpoint.url })
    const rotate = async (overlap_hours: number) =>
      (await server.client.webhooks.rotateSecret({ params: { id }, body: { overlap_hours } })).secret
    const second = await rotate(0)
    await ping(server.client, id)
    const third = await rotate(168)
    await ping(server.client, id)
    expect(endpoint.requests.map((request) => [first, second, third].map((each) => isSignedBy(each, request)))).toEqual(
      [
        [false, true, false],
        [false, true, true],
      ],
    )
  })

  it.each([-1, 169, 'a day'])('refuses an overlap of %s', async (overlap_hours) => {
    const { id } = await create()
    const rotating = server.client.webhooks.rotateSecret({ params: { id }, body: { overlap_hours } as object })
    await expect(rotating).rejects.toMatchObject({ details: { field: 'overlap_hours' } })
  })

  it('stores both secrets encrypted', async () => {
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

  it('answers the same 404 as for an id that never existed, and the webhook stays as it is', async () => {
    const { secret: _, ...made } = await create()
    await expectNotFound(server, 'webhooks.rotateSecret', { id: made.id })
    expect(await server.client.webhooks.get({ params: { id: made.id } })).toEqual(made)
  })
})
