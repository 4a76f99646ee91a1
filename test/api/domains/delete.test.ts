import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed } from '../../harness/conformance.ts'
import { type ServerWithApps, serverWithApps } from '../../harness/domains.ts'

let given: ServerWithApps
beforeAll(async () => {
  given = await serverWithApps()
})
afterAll(() => given?.[Symbol.asyncDispose]())

describe('DELETE /projects/:project_id/apps/:app_id/domains/:id', () => {
  it('removes a domain; its name is free at once', async () => {
    const { id } = await given.add('shop.example.com')
    await given.verify(id)
    const at = { ...given.app(), id }
    await expectNotFound(given.server, 'domains.delete', at)
    await succeed(given.caller, 'domains.delete', at)
    expect((await given.client.domains.list({ params: given.app() })).domains).toEqual([])
    expect(await given.add('shop.example.com', { app: 1 })).toMatchObject({ status: 'pending' })
  })

  it('makes another verified domain primary', async () => {
    const [one, two] = [await given.add('one.example.com'), await given.add('two.example.com')]
    for (const { id } of [one, two]) await given.verify(id)
    await given.client.domains.update({ params: { ...given.app(), id: one.id }, body: { primary: true } })
    await succeed(given.caller, 'domains.delete', { ...given.app(), id: one.id })
    expect(await given.client.domains.get({ params: { ...given.app(), id: two.id } })).toMatchObject({ primary: true })
  })

  it('deleting the app or the project frees its names at once', async () => {
    const { server, client, projectId } = given
    const kept = async () => server.database.query('select name from domains where name = $1', ['freed.example.com'])
    await given.add('freed.example.com')
    await client.apps.delete({ params: { project_id: projectId, id: given.app().app_id } })
    expect(await kept()).toEqual([])
    await given.add('freed.example.com', { app: 1 })
    await client.projects.delete({ params: { project_id: projectId } })
    expect(await kept()).toEqual([])
  })
})
