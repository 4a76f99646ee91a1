import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates, uploadOf } from '../../harness/certificates.ts'
import { expectNotFound, succeed } from '../../harness/conformance.ts'

let given: ServerWithCertificates
beforeAll(async () => {
  given = await serverWithCertificates()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const revoke = (id: string) => given.server.client.certificates.revoke({ params: { id } })

describe('POST /certificates/:id/revoke', () => {
  it('asks for the revocation once', async () => {
    const id = await given.obtained('a.apps.example.net')
    const asked = await succeed(given.caller, 'certificates.revoke', { id })
    expect(asked).toMatchObject({ status: 'valid', revocation_requested_at: expect.stringMatching(/Z$/) })
    expect(Math.abs(Date.parse(asked.next_attempt_at ?? '') - Date.now())).toBeLessThan(60_000)
    expect(await revoke(id)).toEqual(asked)
    await expectNotFound(given.server, 'certificates.revoke', { id })
  })

  it('refuses what cannot be revoked, with the reason', async () => {
    const { server } = given
    const { id: uploaded } = await server.client.certificates.create({
      body: await uploadOf({ names: ['a.example.com'] }),
    })
    const [revoked, pending] = [await given.obtained('b.apps.example.net'), await given.obtained('c.apps.example.net')]
    await server.database.query(
      `update certificates set revocation_requested_at = now(), revoked_at = now(), private_key = null where id = $1`,
      [revoked],
    )
    await server.database.query(
      `update certificates set chain = null, private_key = null, issuer = null, serial = null, not_before = null,
         expires_at = null where id = $1`,
      [pending],
    )
    const refused = (message: RegExp) => ({ code: 'invalid_request', message: expect.stringMatching(message) })
    await expect(revoke(uploaded)).rejects.toMatchObject(refused(/revoked by its issuer/))
    await expect(revoke(revoked)).rejects.toMatchObject(refused(/revoked already/))
    await expect(revoke(pending)).rejects.toMatchObject(refused(/nothing to revoke/))
  })
})
