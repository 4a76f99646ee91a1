import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithRepository, serverWithRepository } from '../../harness/git-credentials.ts'

let given: ServerWithRepository
beforeAll(async () => {
  given = await serverWithRepository()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('DELETE /projects/:project_id/apps/:app_id/git-credentials/known-hosts', () => {
  it('forgets only the hosts of the app', async () => {
    const { params } = given
    const insert = "insert into git_hosts (app_id, host, key) values ($1, 'example.com:22', 'ssh-ed25519 AAAA')"
    await given.server.database.query(insert, [params.app_id])
    expect((await given.client.gitCredentials.get({ params })).known_hosts).toMatchObject([{ host: 'example.com:22' }])
    await expectNotFound(given.server, 'gitCredentials.forgetHosts', params)
    await succeed(caller(), 'gitCredentials.forgetHosts', params)
    expect((await given.client.gitCredentials.get({ params })).known_hosts).toEqual([])
  })
})
