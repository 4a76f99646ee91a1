import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithRepository, serverWithRepository } from '../../harness/git-credentials.ts'

let given: ServerWithRepository
beforeAll(async () => {
  given = await serverWithRepository()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('DELETE /projects/:project_id/apps/:app_id/git-credentials', () => {
  it('deletes the credentials', async () => {
    const { params } = given
    await given.client.gitCredentials.set({ params, body: { kind: 'token', token: 'x' } })
    await expectNotFound(given.server, 'gitCredentials.delete', params)
    await succeed(caller(), 'gitCredentials.delete', params)
    expect((await given.client.gitCredentials.get({ params })).git_credentials).toBe(null)
    await expect(given.client.gitCredentials.delete({ params })).rejects.toMatchObject({ code: 'not_found' })
    expect(
      await given.server.database.query('select 1 from git_credentials where app_id = $1', [params.app_id]),
    ).toEqual([])
  })
})
