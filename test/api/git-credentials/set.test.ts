import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type ServerWithRepository, serverWithRepository } from '../../harness/git-credentials.ts'

let given: ServerWithRepository
beforeAll(async () => {
  given = await serverWithRepository()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const caller = () => withKey(given.server, given.server.apiKey)

describe('POST /projects/:project_id/apps/:app_id/git-credentials', () => {
  it('makes a deploy key for the repository’s ssh address, and a new key each time', async () => {
    const body = { kind: 'deploy_key', git_url: 'git@example.com:team/shop.git' } as const
    const first = await succeed(caller(), 'gitCredentials.set', given.params, body)
    expect(first.git_credentials).toMatchObject({ kind: 'deploy_key', git_url: body.git_url })
    const second = await succeed(caller(), 'gitCredentials.set', given.params, body)
    expect(second.git_credentials?.public_key).toMatch(/^ssh-ed25519 /)
    expect(second.git_credentials?.public_key).not.toBe(first.git_credentials?.public_key)
    await expectNotFound(given.server, 'gitCredentials.set', given.params)
  })

  it('derives the ssh address for well-known hosts', async () => {
    const params = { project_id: given.params.project_id }
    const body = { name: 'hosted', git_url: 'https://git.example.com/team/hosted.git' }
    await given.client.deployments.create({ params, body })
    const { apps } = await given.client.apps.list({ params })
    const app_id = apps.find(({ name }) => name === 'hosted')?.id ?? ''
    const made = await given.client.gitCredentials.set({ params: { ...params, app_id }, body: { kind: 'deploy_key' } })
    expect(made.git_credentials?.git_url).toBe('git@git.example.com:team/hosted.git')
  })

  it('records in the audit log what is stored for which repository, without the secret', async () => {
    const secret = 'token-that-nobody-reads'
    const git_url = 'https://git.example.com/team/audited.git'
    const { client } = await given.server.signIn()
    await given.client.gitCredentials.set({ params: given.params, body: { kind: 'token', token: secret, git_url } })
    const [entry] = (await client.auditLog.list()).entries
    expect(entry).toMatchObject({ operation: 'gitCredentials.set', resource_id: given.params.app_id })
    expect(entry?.details).toEqual({ kind: 'token', git_url })
    expect(JSON.stringify(entry)).not.toContain(secret)
  })

  it.each([
    ['a kind token without a token', { kind: 'token' }, 'token'],
    ['a deploy key with a given key', { kind: 'deploy_key', token: 'x' }, 'token'],
    ['a deploy key for https', { kind: 'deploy_key', git_url: 'https://example.com/a.git' }, 'git_url'],
    ['a token for ssh', { kind: 'token', token: 'x', git_url: 'git@example.com:a.git' }, 'git_url'],
    ['a folder of the server', { kind: 'token', token: 'x', git_url: 'file:///etc' }, 'git_url'],
    ['an option of ssh', { kind: 'deploy_key', git_url: 'ssh://-oProxyCommand=x/a' }, 'git_url'],
    ['another kind', { kind: 'password' }, 'kind'],
  ])('refuses %s', async (_, body, field) => {
    const request = given.client.gitCredentials.set({ params: given.params, body: body as { kind: 'token' } })
    await expect(request).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })
})
