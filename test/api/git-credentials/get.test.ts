import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithRepository, serverWithRepository } from '../../harness/git-credentials.ts'

let given: ServerWithRepository
beforeAll(async () => {
  given = await serverWithRepository()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('GET /projects/:project_id/apps/:app_id/git-credentials', () => {
  it('shows the kinds of credentials, without the secret', async () => {
    const read = () => succeed(caller(), 'gitCredentials.get', given.params)
    expect(await read()).toEqual({ git_credentials: null, known_hosts: [] })
    await given.client.gitCredentials.set({ params: given.params, body: { kind: 'token', token: 'the-secret' } })
    const told = await read()
    expect(told.git_credentials).toMatchObject({ kind: 'token', git_url: given.git_url, fingerprint: null })
    expect(JSON.stringify(told)).not.toContain('the-secret')
    await expectNotFound(given.server, 'gitCredentials.get', given.params)
  })
})
