import { describe, expect, it } from 'vitest'
import { ask, expectNotFound, succeed } from '../../harness/conformance.ts'
import { serverWithApps } from '../../harness/domains.ts'

describe('POST /projects/:project_id/apps/:app_id/domains/:id/check', () => {
  it('checks DNS and answers with the result; the audit log has an entry', async () => {
    await using given = await serverWithApps()
    const { id } = await given.add('shop.example.com')
    const at = { ...given.app(), id }
    const checked = await succeed(given.caller, 'domains.check', at)
    expect(checked).toMatchObject({ id, status: 'pending', checked_at: expect.any(String) })
    expect(Date.parse(checked.next_check_at ?? '')).toBeGreaterThan(Date.now())
    const entries = await given.server.database.query(
      "select resource_id, details from audit_entries where operation = 'domains.check'",
    )
    expect(entries).toEqual([{ resource_id: id, details: { app_id: at.app_id, name: 'shop.example.com' } }])
    for (let n = 1; n < 6; n++) await succeed(given.caller, 'domains.check', at)
    const refused = await ask(given.caller, 'domains.check', at)
    expect([refused.status, JSON.parse(refused.text).error.details]).toEqual([
      400,
      { most: 6, retry_after: expect.any(Number) },
    ])
    await expectNotFound(given.server, 'domains.check', at)
  })
})
