import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /account', () => {
  it('shows the account of the key, with the current window', async () => {
    const { id } = await server.accounts.create({ name: 'Small shop', plan: 'pro' })
    const caller = withKey(server, await server.key({ accountId: id, preset: 'deploy' }))
    await succeed(caller, 'account.get', {})
    const account = await succeed(caller, 'account.get', {})
    expect(account).toMatchObject({
      id,
      name: 'Small shop',
      plan: 'pro',
      rate_limit: { limit: 10_000, used: 2, remaining: 9_998 },
    })
    expect(account.rate_limit.reset).toBeGreaterThan(Date.now() / 1000 + 3500)
  })

  it('shows a user an account without key requests in the last hour', async () => {
    const { id } = await server.accounts.create({ name: 'Quiet', plan: 'free', requestsPerHour: 7 })
    const { client } = await server.signIn({ accountId: id })
    expect(await client.account.get()).toEqual({
      id,
      name: 'Quiet',
      plan: 'free',
      rate_limit: { limit: 7, used: 0, remaining: 7, reset: null },
    })
  })
})
