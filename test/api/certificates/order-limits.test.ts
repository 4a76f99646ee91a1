import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates } from '../../harness/certificates.ts'

let given: ServerWithCertificates
beforeAll(async () => {
  given = await serverWithCertificates()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const renew = (id: string) => given.server.client.certificates.renew({ params: { id } })
const revoke = (id: string) => given.server.client.certificates.revoke({ params: { id } })
/** Ends an attempt as the leader does. */
const ended = (id: string, failure: string | null) =>
  given.server.database.query(
    "update certificates set next_attempt_at = now() + interval '60 days', failure = $2 where id = $1",
    [id, failure],
  )
const tooMany = {
  code: 'invalid_request',
  message: expect.stringMatching(/by hand 4 times within a week.* Try again in 168 hours\.$/),
  details: { most: 4, retry_after: expect.any(Number) },
}

describe('certificates for the same names', () => {
  it('are renewed by hand four times in a week', async () => {
    const id = await given.obtained('a.apps.example.net')
    for (let count = 0; count < 4; count++) {
      await renew(id)
      // The certificate is due now, so another request costs nothing.
      if (count === 0) await renew(id)
      await ended(id, null)
    }
    await given.server.database.query("delete from attempts where name = 'certificates.renew'")
    await expect(renew(id)).rejects.toMatchObject(tooMany)
    await renew(await given.obtained('b.apps.example.net'))
  })

  it('are revoked four times in a week, although each replacement has a new id', async () => {
    for (let count = 0; count < 4; count++) await revoke(await given.obtained('c.apps.example.net'))
    const id = await given.obtained('c.apps.example.net')
    await expect(revoke(id)).rejects.toMatchObject(tooMany)
    await expect(renew(id)).rejects.toMatchObject(tooMany)
    expect(
      await given.server.database.query(
        'select id from certificates where revocation_requested_at is null and id = $1',
        [id],
      ),
    ).toHaveLength(1)
  })

  it('are requested more often where the request fails', async () => {
    const id = await given.obtained('d.apps.example.net')
    for (let count = 0; count < 12; count++) {
      await renew(id)
      await ended(id, JSON.stringify({ code: 'caa', message: 'Not us.' }))
      if (count % 5 === 4) await given.server.database.query("delete from attempts where name = 'certificates.renew'")
    }
  })

  it('are renewed five times in an hour, even after a revocation', async () => {
    for (let count = 0; count < 2; count++) {
      const id = await given.obtained('e.apps.example.net')
      await renew(id)
      await renew(id)
      await revoke(id)
    }
    const id = await given.obtained('e.apps.example.net')
    await ended(id, JSON.stringify({ code: 'caa', message: 'Not us.' }))
    await renew(id)
    await expect(renew(id)).rejects.toMatchObject({ message: expect.stringContaining('5 times within an hour') })
  })
})
