import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates } from '../../harness/certificates.ts'
import { expectNotFound, succeed } from '../../harness/conformance.ts'

let given: ServerWithCertificates
beforeAll(async () => {
  given = await serverWithCertificates()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const set = (id: string, values: string) =>
  given.server.database.query(`update certificates set ${values} where id = $1`, [id])

describe('GET /certificates/:id', () => {
  it('shows a certificate with its last attempt and the next one', async () => {
    const id = await given.obtained('a.apps.example.net')
    const shown = await succeed(given.caller, 'certificates.get', { id })
    expect(shown).toMatchObject({
      ...{ id, names: ['a.apps.example.net'], source: 'automatic', status: 'valid' },
      ...{
        project_id: given.projectId,
        app_id: given.appId,
        domain_id: null,
        issuer: 'Test Authority',
        serial: '01AB',
      },
      ...{ attempts: 0, failure: null },
    })
    expect(Date.parse(shown.next_attempt_at ?? '')).toBeGreaterThan(Date.now())
    expect(JSON.stringify(shown)).not.toContain('BEGIN')
    await expectNotFound(given.server, 'certificates.get', { id })
  })

  it.each([
    ['failing', `attempts = 1, failure = '{"code":"dns_problem","message":"no"}'`],
    ['expired', "expires_at = now() - interval '1 s', attempts = 3"],
    ['revoked', 'revocation_requested_at = now(), revoked_at = now(), private_key = null, next_attempt_at = null'],
    ['pending', 'chain = null, private_key = null, issuer = null, serial = null, not_before = null, expires_at = null'],
  ])('shows that a certificate is %s', async (status, values) => {
    const id = await given.obtained(`${status}.apps.example.net`)
    await set(id, values)
    expect(await succeed(given.caller, 'certificates.get', { id })).toMatchObject({ status })
  })
})
