import { describe, expect, it } from 'vitest'
import { expectNotFound, succeed } from '../../harness/conformance.ts'
import { serverWithApps } from '../../harness/domains.ts'

describe('GET /projects/:project_id/apps/:app_id/domains', () => {
  it('lists the domains of one app, newest first', async () => {
    await using given = await serverWithApps()
    await given.add('first.example.com')
    await given.add('second.example.com')
    await given.add('other.example.com', { app: 1 })
    const { domains, refusal } = await succeed(given.caller, 'domains.list', given.app())
    expect(domains.map(({ name }) => name)).toEqual(['second.example.com', 'first.example.com'])
    expect(refusal).toBeNull()
    await expectNotFound(given.server, 'domains.list', given.app())
  })
})
