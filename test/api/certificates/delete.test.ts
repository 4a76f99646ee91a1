import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates, uploadOf } from '../../harness/certificates.ts'
import { expectNotFound, succeed } from '../../harness/conformance.ts'

let given: ServerWithCertificates
beforeAll(async () => {
  given = await serverWithCertificates()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('DELETE /certificates/:id', () => {
  it('deletes an uploaded certificate with its key', async () => {
    const { server, caller } = given
    const { id } = await server.client.certificates.create({ body: await uploadOf({ names: ['a.example.com'] }) })
    await expectNotFound(server, 'certificates.delete', { id })
    await succeed(caller, 'certificates.delete', { id })
    await expect(server.client.certificates.get({ params: { id } })).rejects.toMatchObject({ code: 'not_found' })
    expect(await server.database.query('select from certificates where id = $1', [id])).toEqual([])
  })

  it('refuses a certificate that the server obtains', async () => {
    const id = await given.obtained('a.apps.example.net')
    await expect(given.server.client.certificates.delete({ params: { id } })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('obtains this certificate automatically'),
    })
  })
})
