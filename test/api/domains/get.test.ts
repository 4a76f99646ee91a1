import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed } from '../../harness/conformance.ts'
import { serverWithApps } from '../../harness/domains.ts'

describe('GET /projects/:project_id/apps/:app_id/domains/:id', () => {
  it('reads one domain, and hides it from other apps', async () => {
    await using given = await serverWithApps()
    const { id } = await given.add('shop.example.com')
    const at = { ...given.app(), id }
    expect(await succeed(given.caller, 'domains.get', at)).toMatchObject({ id, name: 'shop.example.com' })
    await expectNotFound(given.server, 'domains.get', at)
    const elsewhere = given.client.domains.get({ params: { ...given.app(1), id } })
    await expect(elsewhere).rejects.toMatchObject({ code: 'not_found' })
  })

  it('shows another account that wants the name that it is contested, and not by whom', async () => {
    await using given = await serverWithApps()
    const { server } = given
    const had = await given.add('shop.example.com')
    await given.verify(had.id)
    const { id: accountId } = await server.accounts.create({ name: 'Stranger', plan: 'free' })
    const stranger = server.clientFor(await server.key({ accountId }))
    const { id: project_id } = await stranger.projects.create({ body: { name: 'p' } })
    const app_id = had.app_id.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
    await server.database.query(
      "insert into apps (id, project_id, name, hostname) values ($1, $2, 'a', 'a-1.apps.example.net')",
      [app_id, project_id],
    )
    const wanted = await stranger.domains.create({ params: { project_id, app_id }, body: { name: 'shop.example.com' } })
    const proof = { type: 'TXT', name: '_fairlead-challenge.shop.example.com', purpose: 'ownership' }
    expect(wanted.records).toContainEqual(expect.objectContaining(proof))
    for (const secret of [had.id, had.app_id, given.projectId]) expect(JSON.stringify(wanted)).not.toContain(secret)
  })
})
