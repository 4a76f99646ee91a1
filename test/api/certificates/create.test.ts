import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithCertificates, serverWithCertificates, uploadOf } from '../../harness/certificates.ts'
import { ask, succeed } from '../../harness/conformance.ts'

let given: ServerWithCertificates
beforeAll(async () => {
  given = await serverWithCertificates()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('POST /certificates', () => {
  it('stores a certificate with its key encrypted, and never returns the key', async () => {
    const body = await uploadOf({ names: ['www.example.com', '*.example.com'] })
    const answer = await ask(given.caller, 'certificates.create', {}, body)
    expect(answer.status).toBe(201)
    const shown = JSON.parse(answer.text)
    expect(answer.headers.get('location')).toBe(`/v1/certificates/${shown.id}`)
    expect(shown).toEqual({
      id: expect.stringMatching(/^cert_[0-7][0-9a-hjkmnp-tv-z]{25}$/),
      names: ['www.example.com', '*.example.com'],
      source: 'uploaded',
      status: 'valid',
      project_id: null,
      app_id: null,
      domain_id: null,
      issuer: 'Tests (Test Authority)',
      serial: expect.stringMatching(/^[0-9A-F]+$/),
      not_before: expect.stringMatching(/Z$/),
      expires_at: expect.stringMatching(/Z$/),
      attempted_at: null,
      under_way: false,
      next_attempt_at: null,
      attempts: 0,
      failure: null,
      revocation_requested_at: null,
      created_at: expect.stringMatching(/\.\d{3}Z$/),
    })
    const dump = await given.server.database.query<{ text: string }>(
      `select certificates::text as text from certificates union all select audit_entries::text from audit_entries
       union all select idempotency_keys::text from idempotency_keys`,
    )
    const secret = body.private_key.split('\n')[1] ?? ''
    expect(secret.length).toBeGreaterThan(40)
    for (const { text } of dump) expect(text).not.toContain(secret)
    expect(JSON.stringify(given.server.log)).not.toContain(secret)
  })

  it('answers a repetition with the same key like the first request', async () => {
    const body = await uploadOf({ names: ['again.example.com'] })
    const create = () => given.server.client.certificates.create({ body, idempotencyKey: 'the same' })
    expect((await create()).id).toBe((await create()).id)
    const { certificates } = await given.server.client.certificates.list({})
    expect(certificates.filter(({ names }) => names.includes('again.example.com'))).toHaveLength(1)
  })

  it('is limited to a project of the account', async () => {
    const body = { ...(await uploadOf({ names: ['a.example.com'] })), project_id: given.projectId }
    expect(await succeed(given.caller, 'certificates.create', {}, body)).toMatchObject({ project_id: given.projectId })
    const foreign = { ...body, project_id: 'proj_01h455vb4pex5vsknk084sn02q' }
    const creating = given.server.client.certificates.create({ body: foreign })
    await expect(creating).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'project_id' } })
  })

  it('accepts a project’s certificate from a key that is bound to the project, and no other', async () => {
    const { server, projectId } = given
    const { id: other } = await server.client.projects.create({ body: { name: 'other' } })
    const bound = server.clientFor(await server.key({ projectIds: [projectId] }))
    const body = await uploadOf({ names: ['bound.example.com'] })
    const { id } = await bound.certificates.create({ body: { ...body, project_id: projectId } })
    expect((await bound.certificates.get({ params: { id } })).project_id).toBe(projectId)
    await expect(bound.certificates.create({ body })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(bound.certificates.create({ body: { ...body, project_id: other } })).rejects.toMatchObject({
      code: 'forbidden',
    })
  })

  it.each([
    ['no certificate', { private_key: 'x' }, 'certificate', 'is required'],
    ['no key', { certificate: 'x' }, 'private_key', 'is required'],
    ['no PEM', { certificate: 'x', private_key: 'x' }, 'certificate', 'has no certificate in PEM'],
    [
      'a text that is too long',
      { certificate: 'x'.repeat(100_001), private_key: 'x' },
      'certificate',
      'must be at most',
    ],
  ])('refuses %s', async (_, body, field, message) => {
    const answer = await ask(given.caller, 'certificates.create', {}, body)
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text).error.details.errors).toContainEqual({
      field,
      message: expect.stringContaining(message),
    })
  })

  it('refuses a certificate that browsers do not accept, with the reason', async () => {
    const creating = async (body: { certificate: string; private_key: string }) =>
      given.server.client.certificates.create({ body })
    await expect(creating(await uploadOf({ names: ['a.example.com'], from: -9, to: -1 }))).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'certificate', errors: [{ message: expect.stringMatching(/^has expired on 20/) }] },
    })
    const [one, other] = [await uploadOf({ names: ['a.example.com'] }), await uploadOf({ names: ['b.example.com'] })]
    await expect(creating({ ...one, private_key: other.private_key })).rejects.toMatchObject({
      details: { field: 'private_key', errors: [{ message: 'is not the private key of the certificate' }] },
    })
  })

  it('records the names in the audit log', async () => {
    const { id } = await given.server.client.certificates.create({
      body: await uploadOf({ names: ['log.example.com'] }),
    })
    const [entry] = await given.server.database.query<{ operation: string; details: object }>(
      'select operation, details from audit_entries where resource_id = $1',
      [id],
    )
    expect(entry).toEqual({
      operation: 'certificates.create',
      details: { names: ['log.example.com'], serial: expect.any(String) },
    })
  })
})
