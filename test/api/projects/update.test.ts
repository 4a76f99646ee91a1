import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('PATCH /projects/:project_id', () => {
  it('changes the given fields and leaves the others', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'old', region: 'eu-1' } })
    const params = { project_id: id }
    expect(await server.client.projects.update({ params, body: { name: ' new ' } })).toMatchObject({
      name: 'new',
      region: 'eu-1',
      plan: 'free',
    })
    expect(await server.client.projects.update({ params, body: { plan: 'pro' } })).toMatchObject({ plan: 'pro' })
    const changed = await server.client.projects.get({ params })
    expect(changed).toMatchObject({ id, name: 'new', region: 'eu-1', plan: 'pro' })
    expect(await server.client.projects.update({ params, body: {} })).toEqual(changed)
  })

  it.each([
    [{ name: '' }, 'name'],
    [{ plan: 'gold' }, 'plan'],
    [{ name: null }, 'name'],
  ])('refuses %j', async (body, field) => {
    const { id } = await server.client.projects.create({ body: { name: 'a' } })
    const changing = server.client.projects.update({ params: { project_id: id }, body: body as { name: string } })
    await expect(changing).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
    expect(await server.client.projects.get({ params: { project_id: id } })).toMatchObject({ name: 'a', plan: 'free' })
  })

  it('refuses a plan above the tier of the account', async () => {
    const account = await server.accounts.create({ name: 'small', plan: 'free' })
    const client = server.clientFor(await server.key({ accountId: account.id }))
    const { id } = await client.projects.create({ body: { name: 'a' } })
    const changing = client.projects.update({ params: { project_id: id }, body: { plan: 'pro' } })
    await expect(changing).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'plan' } })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'mine' } })
    await expectNotFound(server, 'projects.update', { project_id: id })
    expect(await server.client.projects.get({ params: { project_id: id } })).toMatchObject({ name: 'mine' })
  })
})
