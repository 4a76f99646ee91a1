import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed } from '../../harness/conformance.ts'
import { type ServerWithApps, serverWithApps } from '../../harness/domains.ts'

let given: ServerWithApps
beforeAll(async () => {
  given = await serverWithApps()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('PATCH /projects/:project_id/apps/:app_id/domains/:id', () => {
  it('makes a verified domain primary in place of the present one', async () => {
    const [one, two] = [await given.add('one.example.com'), await given.add('two.example.com')]
    const [first, second] = [one, two].map(({ id }) => ({ ...given.app(), id })) as [never, never]
    await given.verify(one.id)
    await given.verify(two.id)
    expect(await succeed(given.caller, 'domains.update', first, { primary: true })).toMatchObject({ primary: true })
    expect(await succeed(given.caller, 'domains.update', second, { primary: true })).toMatchObject({ primary: true })
    expect(await given.client.domains.get({ params: first })).toMatchObject({ primary: false })
    expect(await succeed(given.caller, 'domains.update', first, { redirect: true })).toMatchObject({ redirect: true })
    const onPrimary = given.client.domains.update({ params: second, body: { redirect: true } })
    await expect(onPrimary).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'redirect' } })
    // A redirecting domain answers when it becomes primary.
    const changed = await succeed(given.caller, 'domains.update', first, { primary: true })
    expect(changed).toMatchObject({ primary: true, redirect: false })
  })

  it('refuses a domain that is not verified, a wildcard, and false', async () => {
    const at = async (name: string) => ({ ...given.app(1), id: (await given.add(name, { app: 1 })).id })
    const update = async (params: never, body: object) => given.client.domains.update({ params, body: body as never })
    const pending = (await at('pending.example.com')) as never
    await expect(update(pending, { primary: true })).rejects.toMatchObject({ details: { field: 'primary' } })
    await expect(update(pending, { primary: false })).rejects.toMatchObject({ details: { field: 'primary' } })
    expect(await succeed(given.caller, 'domains.update', pending, { redirect: true })).toMatchObject({ redirect: true })
    const wildcard = (await at('*.example.com')) as never
    await expect(update(wildcard, { redirect: true })).rejects.toMatchObject({ details: { field: 'redirect' } })
    await expect(update(wildcard, { primary: true })).rejects.toMatchObject({ details: { field: 'primary' } })
  })

  it('answers the same 404 as for a domain that never existed', async () => {
    const { id } = await given.add('not-found.example.com')
    await expectNotFound(given.server, 'domains.update', { ...given.app(), id })
  })
})
