import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { generateKey, isWellFormedKey } from '../../server/src/features/accounts/keys.ts'
import { presetOf } from '../../server/src/features/accounts/scopes.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('an API key', () => {
  it('has the form fl_, 30 characters and their checksum', () => {
    for (let i = 0; i < 200; i++) {
      const key = generateKey()
      expect(key).toMatch(/^fl_[0-9A-Za-z]{36}$/)
      expect(isWellFormedKey(key)).toBe(true)
      const at = 3 + (i % 30)
      const other = key[at] === 'a' ? 'b' : 'a'
      expect(isWellFormedKey(key.slice(0, at) + other + key.slice(at + 1))).toBe(false)
    }
  })

  it('is not stored', async () => {
    const key = await server.key({})
    const rows = await server.database.query<{ row: string }>('select api_keys::text as row from api_keys')
    expect(rows.some(({ row }) => row.includes(key))).toBe(false)
  })

  it('has its last use recorded', async () => {
    const key = await server.key({ preset: 'read' })
    const used = async () => {
      const own = (await server.keys.list()).filter(({ accountId }) => accountId === server.accountId)
      return own.find(({ scopes }) => presetOf(scopes) === 'read')?.lastUsedAt
    }
    expect(await used()).toBeNull()
    await server.clientFor(key).projects.list()
    expect(await used()).toBeInstanceOf(Date)
  })

  it('is accepted in any case of the scheme', async () => {
    const response = await fetch(`${server.baseUrl}/projects`, {
      headers: { authorization: `bearer ${server.apiKey}` },
    })
    expect(response.status).toBe(200)
  })
})

it('a path under /v1 is answered with 401 before 404', async () => {
  expect((await fetch(`${server.baseUrl}/nothing`)).status).toBe(401)
})
