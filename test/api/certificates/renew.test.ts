import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates, uploadOf } from '../../harness/certificates.ts'
import { ask, expectNotFound, succeed } from '../../harness/conformance.ts'

let given: ServerWithCertificates
beforeAll(async () => {
  given = await serverWithCertificates()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('POST /certificates/:id/renew', () => {
  it('makes the next attempt due at once', async () => {
    const id = await given.obtained('a.apps.example.net')
    const before = await succeed(given.caller, 'certificates.get', { id })
    const renewed = await succeed(given.caller, 'certificates.renew', { id })
    expect(renewed).toEqual({ ...before, next_attempt_at: expect.any(String) })
    expect(Math.abs(Date.parse(renewed.next_attempt_at ?? '') - Date.now())).toBeLessThan(60_000)
    await expectNotFound(given.server, 'certificates.renew', { id })
  })

  it('reports a running attempt, and changes nothing', async () => {
    const id = await given.obtained('b.apps.example.net')
    await given.server.database.query('update certificates set is_under_way = true where id = $1', [id])
    const before = await succeed(given.caller, 'certificates.get', { id })
    expect(before.under_way).toBe(true)
    expect(await succeed(given.caller, 'certificates.renew', { id })).toEqual(before)
  })

  it('refuses what cannot be renewed, with the reason', async () => {
    const { server } = given
    const { id: uploaded } = await server.client.certificates.create({
      body: await uploadOf({ names: ['a.example.com'] }),
    })
    const revoked = await given.obtained('c.apps.example.net')
    await server.client.certificates.revoke({ params: { id: revoked } })
    for (const [id, message] of [
      [uploaded, /Uploaded certificates are not renewed here/],
      [revoked, /will be revoked/],
    ] as const) {
      await expect(server.client.certificates.renew({ params: { id } })).rejects.toMatchObject({
        code: 'invalid_request',
        message: expect.stringMatching(message),
      })
    }
  })

  it('is limited, because authorities have limits', async () => {
    const id = await given.obtained('d.apps.example.net')
    for (let count = 0; count < 5; count++) await succeed(given.caller, 'certificates.renew', { id })
    const answer = await ask(given.caller, 'certificates.renew', { id })
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text).error.details).toEqual({ most: 5, retry_after: expect.any(Number) })
  })
})
