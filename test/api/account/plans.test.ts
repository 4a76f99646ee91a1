import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /account/plans', () => {
  it.each([
    ['free', ['free', 'starter']],
    ['pro', ['free', 'starter', 'pro']],
  ] as const)('lists the plans that an account of the tier %s may choose, with their limits', async (tier, names) => {
    const { id } = await server.accounts.create({ name: 'Small shop', plan: tier })
    const caller = withKey(server, await server.key({ accountId: id, preset: 'read' }))
    const { plans, regions, default_region } = await succeed(caller, 'account.plans', {})
    expect(plans.map(({ name }) => name)).toEqual(names)
    expect(plans[0]).toEqual({
      name: 'free',
      memory_mb: 512,
      cpus: 0.5,
      instances: 1,
      app_gb: 8,
      domains: 5,
      apps: 5,
      databases: 2,
      database_gb: 1,
      storage_gb: 2,
      file_mb: 500,
    })
    expect({ regions, default_region }).toEqual({ regions: [], default_region: 'local' })
  })
})
